/* SPDX-License-Identifier: Apache-2.0 */
/** \file
 * What a framework tells of a training, for recordings (CANNON_RECORD): which module of the model runs, in which phase,
 * and which memory its parameters, gradients and optimiser states have. In libcannon.so. `cannon memory` and `cannon
 * advise` show memory by it; the Python module cannon_marks calls it for PyTorch.
 *
 * Without a recording the functions do nothing. May be called from any thread; what is told holds for the process,
 * since frameworks run a step's forward and backward on different threads, one after the other.
 */
#ifndef CANNON_MARKS_H
#define CANNON_MARKS_H

#include <stdint.h>

#include "acl/acl_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The phases of a training step. */
typedef enum { CANNON_OUTSIDE, CANNON_FORWARD, CANNON_BACKWARD, CANNON_UPDATE } cannonPhase;

/** What memory is for. */
typedef enum { CANNON_PARAMETER, CANNON_GRADIENT, CANNON_OPTIMIZER } cannonUse;

/** Tells of a module of the model.
 *
 * \param name   its name within the model, "layers.3.attention"
 * \param type   its type, "MultiheadAttention"
 * \param parent number of the module that contains it; 0: none
 * \return       its number for the other functions; 0 if nothing is recorded
 */
ACL_FUNC_VISIBILITY uint32_t cannon_mark_module(const char *name, const char *type, uint32_t parent);

/** Tells that a module begins or ends its forward computation. Calls are nested as the modules are. */
ACL_FUNC_VISIBILITY void cannon_mark_enter(uint32_t module);
ACL_FUNC_VISIBILITY void cannon_mark_leave(uint32_t module);

/** Tells that what follows in the backward phase belongs to this module. */
ACL_FUNC_VISIBILITY void cannon_mark_backward(uint32_t module);

/** Tells that a phase begins. */
ACL_FUNC_VISIBILITY void cannon_mark_phase(cannonPhase phase);

/** Tells that a step of training is over: the optimiser has updated the parameters. */
ACL_FUNC_VISIBILITY void cannon_mark_step(void);

/** Tells what a range of device memory is for.
 *
 * \param use     its use
 * \param address its first byte
 * \param bytes   its length
 * \param module  whose it is; 0: none
 */
ACL_FUNC_VISIBILITY void cannon_mark_memory(cannonUse use, const void *address, uint64_t bytes, uint32_t module);

#ifdef __cplusplus
}
#endif

#endif
