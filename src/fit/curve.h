/* SPDX-License-Identifier: Apache-2.0 */
/* How much of a device's memory a recorded run held over time, and for what. Called by `cannon memory` and the other
 * analyses of src/fit; uses fit/history.h only.
 *
 * A device's memory is held by blocks of the library's calls. Some of them are segments, which a framework cut into
 * tensors: then the tensors are counted by their classes, and the rest of the segments as HISTORY_CACHE. So the
 * classes' bytes always add up to what is held. "Used" is all but the cache.
 *
 * The level at a moment is that after the recording's entry of this number. Functions don't change the history; they
 * may be used from several threads for different curves. */
#ifndef CANNON_FIT_CURVE_H
#define CANNON_FIT_CURVE_H

#include "fit/history.h"

typedef struct {
  uint64_t held, used;
  uint64_t bytes[HISTORY_N_CLASSES]; /* they add up to held */
} curve_level;

typedef struct {
  uint64_t moment, ns;
  curve_level level;
} curve_point;

/* A block is born or dies. */
typedef struct {
  uint64_t moment, ns;
  uint32_t block;
  bool is_birth;
} curve_change;

typedef struct {
  const history *h;
  uint32_t device;
  size_t n_changes;
  curve_change *changes; /* by moment; deaths before births of the same moment */
} curve;

/* A walk over the changes. */
typedef struct {
  const curve *c;
  size_t next;                   /* the change to come */
  uint64_t plain, segments, cut; /* bytes of blocks outside of segments, of segments, and of tensors in segments */
  curve_level level;             /* after the changes before `next` */
  uint64_t ns;                   /* of the last change */
} curve_walk;

/* Collects the device's changes. The history must outlive the curve; free it by curve_free. */
void curve_make(const history *h, uint32_t device, curve *c);
void curve_free(curve *c);

/* Begins before the first change. */
curve_walk curve_begin(const curve *c);

/* Applies the next change and returns it; NULL at the end. */
const curve_change *curve_step(curve_walk *w);

/* Applies the changes up to the moment, and returns the level there. */
curve_point curve_go(curve_walk *w, uint64_t moment);

/* As curve_peak, for a walk that is not beyond `from`; it ends before `to`. */
curve_point curve_go_to_peak(curve_walk *w, uint64_t from, uint64_t to);

/* The level at a moment. */
curve_point curve_at(const curve *c, uint64_t moment);

/* The first moment from `from` on and before `to` at which most was held; of several the first at which most was used
 * then. */
curve_point curve_peak(const curve *c, uint64_t from, uint64_t to);

/* The last moment not after this time, or 0. */
uint64_t curve_moment_of(const history *h, uint64_t ns);

/* The largest number of bytes that the blocks of each module and of the modules in it had at once. */
typedef struct {
  uint64_t bytes, moment; /* the first moment of it */
} curve_module_peak;

/* Fills an element for each module of the history. */
void curve_module_peaks(const curve *c, curve_module_peak *out);

/* Whether a block is one of those that are counted on a device: on it, and no segment. */
bool curve_counts(const history *h, uint32_t block, uint32_t device);

/* The device that held most at its peak. */
uint32_t curve_fullest_device(const history *h);

#endif
