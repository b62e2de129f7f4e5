/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/share/ipc.h"

#include <stdlib.h>
#include <string.h>

#include "base/hooks.h"
#include "base/invariant.h"
#include "base/lock.h"
#include "base/store/host_page.h"
#include "memory/memory.h"
#include "memory/share/exchange.h"

typedef struct share {
  struct share *next;
  uint64_t key;
  uintptr_t start; /* of the exported block, or where the imported memory is mapped */
  bool imported;
} share;

static struct {
  mutex lock;
  share *first;
} all = {.lock = MUTEX_INITIALIZER(IPC)};

_Atomic uint32_t ipc_n_exports;

static status ipc_parse_key(const char *text, uint64_t *key) {
  return exchange_parse(text, "aclrtIpcMemGetExportKey", key);
}

/* The link of the list that points to the share with that key; to NULL: there is none. Under the lock. */
static share **ipc_lookup(uint64_t key, bool imported) {
  share **at = &all.first;
  while (*at && ((*at)->key != key || (*at)->imported != imported)) at = &(*at)->next;
  return at;
}

static void count_exports(int change) {
  INVARIANT(change > 0 || atomic_load(&ipc_n_exports) > 0);
  atomic_fetch_add(&ipc_n_exports, (uint32_t)change);
  memory_check_frees(change);
}

/* Adds to the list, under the lock. */
static void ipc_add(share *s) {
  s->next = all.first;
  all.first = s;
  if (!s->imported) count_exports(1);
}

/* Removes from the list, under the lock. */
static void ipc_drop(share **at) {
  share *s = *at;
  *at = s->next;
  if (!s->imported) count_exports(-1);
  free(s);
}

static share *share_new(void) {
  share *s = calloc(1, sizeof *s);
  if (!s) fail_words("no host memory for a key");
  return s;
}

/* ---- the exporter ------------------------------------------------------------------------------------------------ */

static status ipc_check_range(const void *p, uint64_t bytes, const heap_block **block) {
  if ((uintptr_t)p % PAGE_BYTES)
    return fail(ST_INVALID_VALUE, "devPtr is %p, expected the start of a page of %d bytes", p, PAGE_BYTES);
  if (!bytes) return fail(ST_INVALID_VALUE, "size is 0, expected 1 or more");
  *block = space_device_of((uintptr_t)p) >= 0 ? memory_find(p) : NULL;
  if (!*block) return fail(ST_INVALID_VALUE, "devPtr is %p, expected an address in a block of aclrtMalloc", p);
  const uint64_t inside = (uintptr_t)p - (*block)->address;
  if (inside < (*block)->bytes && bytes <= (*block)->bytes - inside) return ST_OK;
  return fail(ST_INVALID_VALUE, "size is %ju, expected at most %ju, to the end of the block at %p", (uintmax_t)bytes,
              (uintmax_t)((*block)->bytes - inside), (void *)(*block)->address);
}

/* Offers the pages of the range, of which the last one may extend beyond it. */
static status offer_pages(const void *p, uint64_t bytes, bool to_all, uint64_t *key) {
  const int device = space_device_of((uintptr_t)p);
  const uint64_t pages = (bytes + PAGE_BYTES - 1) & -(uint64_t)PAGE_BYTES;
  heap *h = memory_heap(device);
  exchange_item item = {.kind = EXCHANGE_BLOCK, .device = device, .file = heap_file(h), .bytes = bytes};
  heap_pieces(h, (uintptr_t)p, pages, NULL, 0, &item.n_pieces);
  heap_piece *pieces = malloc(item.n_pieces * sizeof *pieces);
  if (!pieces) return fail(ST_NO_HOST_MEMORY, "no host memory for %zu pieces", item.n_pieces);
  heap_pieces(h, (uintptr_t)p, pages, pieces, item.n_pieces, &item.n_pieces);
  item.pieces = pieces;
  const status st = exchange_offer(&item, to_all, key);
  free(pieces);
  return st;
}

status ipc_export(const void *p, uint64_t bytes, bool to_all, char key[IPC_KEY_BYTES]) {
  const heap_block *block;
  TRY(ipc_check_range(p, bytes, &block));
  share *s = share_new();
  if (!s) return ST_NO_HOST_MEMORY;
  s->start = block->address;
  const status st = offer_pages(p, bytes, to_all, &s->key);
  if (st != ST_OK) {
    free(s);
    return st;
  }
  exchange_print(s->key, key);
  if (hooks_any()) hooks_shared(s->start);
  mutex_lock(&all.lock);
  ipc_add(s);
  mutex_unlock(&all.lock);
  return ST_OK;
}

status ipc_allow(const char *text, const int32_t *pids, size_t n) {
  uint64_t key;
  TRY(ipc_parse_key(text, &key));
  return exchange_allow(key, pids, n, "key");
}

/* Ends an export unless a living process has imported it, under the lock. */
static status end_export(share **at, const char *name) {
  const int32_t pid = exchange_withdraw((*at)->key, false);
  if (pid)
    return fail(ST_INVALID_VALUE,
                "%s is of memory at %p that process %d has imported, expected it to be closed there before", name,
                (void *)(*at)->start, pid);
  ipc_drop(at);
  return ST_OK;
}

status ipc_forget(uintptr_t block, const char *name) {
  status st = ST_OK;
  mutex_lock(&all.lock);
  for (share **at = &all.first; *at && st == ST_OK;)
    if (!(*at)->imported && (*at)->start == block)
      st = end_export(at, name);
    else
      at = &(*at)->next;
  mutex_unlock(&all.lock);
  return st;
}

/* ---- the importer ------------------------------------------------------------------------------------------------ */

status ipc_import(const char *text, int device, void **out) {
  uint64_t key;
  TRY(ipc_parse_key(text, &key));
  share *s = share_new();
  if (!s) return ST_NO_HOST_MEMORY;
  *s = (share){.key = key, .imported = true};
  const status st = vmm_import_block(key, device, &s->start);
  if (st != ST_OK) {
    free(s);
    return st;
  }
  *out = (void *)s->start;
  mutex_lock(&all.lock);
  ipc_add(s);
  mutex_unlock(&all.lock);
  return ST_OK;
}

static status end_import(share **at) {
  TRY(vmm_close_block((*at)->start));
  ipc_drop(at);
  return ST_OK;
}

status ipc_close(const char *text) {
  uint64_t key;
  TRY(ipc_parse_key(text, &key));
  mutex_lock(&all.lock);
  share **imported = ipc_lookup(key, true), **exported = ipc_lookup(key, false);
  const status st =
      *imported   ? end_import(imported)
      : *exported ? end_export(exported, "key")
                  : fail(ST_INVALID_VALUE, "key is '%.64s', neither exported nor imported here (closed before?)", text);
  mutex_unlock(&all.lock);
  return st;
}
