/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/share/exchange.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/invariant.h"
#include "base/store/host_page.h"
#include "memory/share/machine.h"

enum { BITS = 64 }; /* bits in a word of machine_export.importers */

/* The start of an export's record (machine.h); the pieces follow. */
typedef struct {
  int32_t kind, device, file;
  uint64_t filesystem, inode; /* of the offered file, to recognise it */
  uint64_t bytes, n_pieces;
  char tag[EXCHANGE_TAG_BYTES];
  uint32_t to_all, n_allowed;
  int32_t allowed[EXCHANGE_MOST_PIDS];
} record;

/* ---- keys: serial * MACHINE_EXPORTS + slot ----------------------------------------------------------------------- */

#define KEY_PREFIX "cannon-"

void exchange_print(uint64_t key, char text[EXCHANGE_TEXT_BYTES]) {
  memset(text, 0, EXCHANGE_TEXT_BYTES);
  snprintf(text, EXCHANGE_TEXT_BYTES, KEY_PREFIX "%016" PRIx64, key);
}

status exchange_parse(const char *text, const char *from, uint64_t *key) {
  char end;
  if (!strncmp(text, KEY_PREFIX, strlen(KEY_PREFIX)) &&
      sscanf(text + strlen(KEY_PREFIX), "%16" SCNx64 "%c", key, &end) == 1)
    return ST_OK;
  return fail(ST_INVALID_VALUE, "key is '%.64s', expected what %s gave", text, from);
}

/* Finds the slot of a key that a living process offers; under the machine's lock. */
static status exchange_slot_of(machine_file *file, uint64_t key, const char *name, uint32_t *slot) {
  if (!file) return machine_refuse();
  *slot = (uint32_t)(key % MACHINE_EXPORTS);
  const machine_export *x = &file->exports[*slot];
  if (!x->serial || x->serial != key / MACHINE_EXPORTS || x->owner >= MACHINE_PLACES || x->ended)
    return fail(ST_INVALID_VALUE, "%s is %#jx, which nobody offers (withdrawn, or of another machine?)", name,
                (uintmax_t)key);
  if (!machine_is_alive(x->owner))
    return fail(ST_INVALID_VALUE, "%s is %#jx, whose process, %d, has ended", name, (uintmax_t)key,
                atomic_load(&file->places[x->owner].pid));
  return ST_OK;
}

static bool exchange_is_own(const machine_file *file, uint32_t slot) {
  return file->exports[slot].owner == machine_own_place();
}

static bool has_taken(const machine_export *x, uint32_t place) {
  return x->importers[place / BITS] >> place % BITS & 1;
}

/* Reads an export's record and checks its numbers, since the file may be broken. */
static status read_record(uint32_t slot, record *r) {
  if (machine_read_record(slot, 0, r, sizeof *r) && r->n_allowed <= EXCHANGE_MOST_PIDS && r->n_pieces > 0 &&
      r->n_pieces <= (MACHINE_RECORD_BYTES - sizeof *r) / sizeof(heap_piece))
    return ST_OK;
  return fail(ST_INTERNAL, "the file of this machine's processes is broken (or full)");
}

/* ---- the exporter ------------------------------------------------------------------------------------------------ */

static status fill_slot(machine_file *file, uint32_t slot, const exchange_item *item, bool to_all) {
  struct stat s;
  INVARIANT(slot < MACHINE_EXPORTS && item->n_pieces > 0 && item->bytes > 0 && item->file >= 0);
  if (fstat(item->file, &s)) return fail(ST_INTERNAL, "fstat: %s", strerror(errno));
  record r = {.kind = (int32_t)item->kind,
              .device = item->device,
              .file = item->file,
              .filesystem = s.st_dev,
              .inode = s.st_ino,
              .bytes = item->bytes,
              .n_pieces = item->n_pieces,
              .to_all = to_all};
  memcpy(r.tag, item->tag, sizeof r.tag);
  if (!machine_write_record(slot, 0, &r, sizeof r) ||
      !machine_write_record(slot, sizeof r, item->pieces, item->n_pieces * sizeof *item->pieces)) {
    machine_drop_record(slot);
    return fail(ST_NO_MEMORY, "no room to describe %zu pieces of memory to other processes", item->n_pieces);
  }
  machine_export *x = &file->exports[slot];
  memset(x->importers, 0, sizeof x->importers);
  x->owner = machine_own_place();
  x->ended = 0;
  x->serial = file->head.next_serial++;
  return ST_OK;
}

/* A free slot, else one whose exporter has ended; MACHINE_EXPORTS: none. */
static uint32_t exchange_free_slot(const machine_file *file) {
  uint32_t slot = 0;
  while (slot < MACHINE_EXPORTS && file->exports[slot].serial) ++slot;
  if (slot < MACHINE_EXPORTS) return slot;
  for (slot = 0; slot < MACHINE_EXPORTS; ++slot)
    if (!machine_is_alive(file->exports[slot].owner)) break;
  return slot;
}

status exchange_offer(const exchange_item *item, bool to_all, uint64_t *key) {
  machine_file *file = machine_enter();
  status st = file ? ST_OK : machine_refuse();
  const uint32_t slot = file ? exchange_free_slot(file) : MACHINE_EXPORTS;
  if (file && slot == MACHINE_EXPORTS)
    st = fail(ST_NO_MEMORY, "%d pieces of memory are exported, expected to export fewer at a time", MACHINE_EXPORTS);
  if (st == ST_OK) st = fill_slot(file, slot, item, to_all);
  if (st == ST_OK) *key = file->exports[slot].serial * MACHINE_EXPORTS + slot;
  machine_leave();
  return st;
}

static bool is_among(int32_t pid, const int32_t *pids, uint32_t n) {
  uint32_t i = 0;
  while (i < n && pids[i] != pid) ++i;
  return i < n;
}

static status exchange_allow_locked(machine_file *file, uint64_t key, const int32_t *pids, size_t n, const char *name) {
  uint32_t slot;
  record r;
  TRY(exchange_slot_of(file, key, name, &slot));
  if (!exchange_is_own(file, slot))
    return fail(ST_INVALID_VALUE, "%s is %#jx, which another process exported, expected one of this process's", name,
                (uintmax_t)key);
  TRY(read_record(slot, &r));
  for (size_t i = 0; i < n; ++i) {
    if (pids[i] <= 0) return fail(ST_INVALID_VALUE, "pid[%zu] is %d, expected a process's id", i, pids[i]);
    if (is_among(pids[i], r.allowed, r.n_allowed)) continue;
    if (r.n_allowed == EXCHANGE_MOST_PIDS)
      return fail(ST_INVALID_VALUE, "pid[%zu] is %d, one process too many, expected at most %d for a key", i, pids[i],
                  EXCHANGE_MOST_PIDS);
    r.allowed[r.n_allowed++] = pids[i];
  }
  if (machine_write_record(slot, 0, &r, sizeof r)) return ST_OK;
  return fail(ST_NO_MEMORY, "no room to name processes to other processes");
}

status exchange_allow(uint64_t key, const int32_t *pids, size_t n, const char *name) {
  const status st = exchange_allow_locked(machine_enter(), key, pids, n, name);
  machine_leave();
  return st;
}

int32_t exchange_withdraw(uint64_t key, bool for_good) {
  const uint32_t slot = (uint32_t)(key % MACHINE_EXPORTS);
  machine_file *file = machine_enter();
  machine_export *x = file && file->exports[slot].serial == key / MACHINE_EXPORTS ? &file->exports[slot] : NULL;
  int32_t pid = 0;
  for (uint32_t i = 0; x && !pid && i < MACHINE_PLACES; ++i)
    if (has_taken(x, i) && machine_is_alive(i)) pid = atomic_load(&file->places[i].pid);
  if (x && pid && for_good) x->ended = 1;
  if (x && !pid) {
    x->serial = 0;
    machine_drop_record(slot);
  }
  machine_leave();
  return pid;
}

/* ---- the importer ------------------------------------------------------------------------------------------------ */

static status check_taker(const machine_file *file, uint32_t slot, const record *r, exchange_kind kind,
                          const char *name) {
  static const char *const kinds[] = {"physical memory", "a block (aclrtIpcMemGetExportKey)",
                                      "a notify (aclrtNotifyGetExportKey)", "an event (aclrtIpcGetEventHandle)"};
  const int32_t own = getpid();
  if (exchange_is_own(file, slot))
    return fail(ST_INVALID_VALUE, "%s is of this process's own, expected another process to import it", name);
  if (r->kind != (int32_t)kind)
    return fail(ST_INVALID_VALUE, "%s is of %s, expected one of %s", name,
                (unsigned)r->kind <= EXCHANGE_EVENT ? kinds[r->kind] : "another kind", kinds[kind]);
  if (!r->to_all && !is_among(own, r->allowed, r->n_allowed))
    return fail(ST_NO_PERMISSION, "%s may be imported by %u processes, of which this one, %d, is none", name,
                r->n_allowed, own);
  if (has_taken(&file->exports[slot], machine_own_place()))
    return fail(ST_INVALID_VALUE, "%s is imported in this process already, expected once", name);
  return ST_OK;
}

/* Opens the exporter's file in this process. */
static status exchange_open_file(int32_t pid, const record *r, int *file, uint64_t *file_bytes) {
  char path[48];
  struct stat s = {0};
  snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, r->file);
  *file = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
  if (*file < 0)
    return fail(ST_NOT_SUPPORTED, "the memory of process %d can't be reached: %s: %s", pid, path, strerror(errno));
  *file_bytes = 0;
  if (fstat(*file, &s) == 0 && s.st_dev == r->filesystem && s.st_ino == r->inode) {
    *file_bytes = (uint64_t)s.st_size;
    return ST_OK;
  }
  close(*file);
  return fail(ST_INVALID_VALUE, "the memory of process %d is not where it was (another container's process?)", pid);
}

/* Whether the pieces are whole pages inside of the file and add up to the item's length. */
static bool are_sound(const heap_piece *pieces, size_t n, uint64_t bytes, uint64_t file_bytes) {
  uint64_t sum = 0;
  for (size_t i = 0; i < n; ++i) {
    if (pieces[i].offset % PAGE_BYTES || pieces[i].bytes % PAGE_BYTES || pieces[i].bytes > file_bytes ||
        pieces[i].offset > file_bytes - pieces[i].bytes)
      return false;
    sum += pieces[i].bytes;
  }
  return bytes && sum >= bytes && sum - bytes < (uint64_t)PAGE_BYTES;
}

static status read_pieces(uint32_t slot, const record *r, uint64_t file_bytes, heap_piece *pieces) {
  if (machine_read_record(slot, sizeof *r, pieces, r->n_pieces * sizeof *pieces) &&
      are_sound(pieces, r->n_pieces, r->bytes, file_bytes))
    return ST_OK;
  return fail(ST_INTERNAL, "the file of this machine's processes is broken");
}

static status read_item(uint32_t slot, int32_t pid, const record *r, exchange_item *item, heap_piece **out) {
  uint64_t file_bytes;
  heap_piece *pieces = malloc(r->n_pieces * sizeof *pieces);
  if (!pieces) return fail(ST_NO_HOST_MEMORY, "no host memory for %ju pieces", (uintmax_t)r->n_pieces);
  *item = (exchange_item){.kind = (exchange_kind)r->kind,
                          .device = r->device,
                          .bytes = r->bytes,
                          .pieces = pieces,
                          .n_pieces = r->n_pieces};
  memcpy(item->tag, r->tag, sizeof item->tag);
  status st = exchange_open_file(pid, r, &item->file, &file_bytes);
  if (st == ST_OK) {
    st = read_pieces(slot, r, file_bytes, pieces);
    if (st != ST_OK) close(item->file);
  }
  if (st == ST_OK)
    *out = pieces;
  else
    free(pieces);
  return st;
}

static status exchange_take_locked(machine_file *file, uint64_t key, exchange_kind kind, const char *name,
                                   exchange_item *item, heap_piece **pieces) {
  uint32_t slot;
  record r;
  TRY(exchange_slot_of(file, key, name, &slot));
  TRY(read_record(slot, &r));
  TRY(check_taker(file, slot, &r, kind, name));
  machine_export *x = &file->exports[slot];
  TRY(read_item(slot, atomic_load(&file->places[x->owner].pid), &r, item, pieces));
  x->importers[machine_own_place() / BITS] |= UINT64_C(1) << machine_own_place() % BITS;
  return ST_OK;
}

status exchange_take(uint64_t key, exchange_kind kind, const char *name, exchange_item *item, heap_piece **pieces) {
  const status st = exchange_take_locked(machine_enter(), key, kind, name, item, pieces);
  machine_leave();
  return st;
}

/* The offer may have ended with its process, and another one may be in its slot. */
void exchange_drop(uint64_t key) {
  machine_file *file = machine_enter();
  machine_export *x = file ? &file->exports[key % MACHINE_EXPORTS] : NULL;
  if (x && x->serial == key / MACHINE_EXPORTS)
    x->importers[machine_own_place() / BITS] &= ~(UINT64_C(1) << machine_own_place() % BITS);
  machine_leave();
}
