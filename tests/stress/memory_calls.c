/* SPDX-License-Identifier: Apache-2.0 */
/* Calls all memory functions at random from several threads, with wrong calls mixed in, and compares the outcome with a
 * model that knows every block.
 *
 *   stress_memory_calls SEED|random STEPS        (steps of each of the threads)
 *
 * With an even seed memory is so scarce that some requests are refused. With an odd seed it is ample, and blocks are
 * freed with work in flight, which is safe only where nothing has to be refused. Both ends of a block (all of a short
 * block) hold a byte value of its own, which is checked repeatedly: this finds blocks that overlap, memory that is lost
 * while it moves, and memory that is handed out while a task still uses it. Each thread has one stream, and updates the
 * model when it submits a task. Blocks are passed from thread to thread. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "acl/acl_rt.h"
#include "stress.h"

enum {
  THREADS = 4,
  BLOCKS = 96,
  SLOTS = 8,
  MAPPINGS = 6,
  GRANULE = 2 << 20,
  PAGE = 4096,
  EDGE = 256, /* of a long block's ends */
  HOST_BYTES = 16 * PAGE,
  SCARCE_MIB = 192,
  AMPLE_MIB = 4096
};

typedef enum { DEVICE, PINNED, MANAGED, MAPPED, MAPPED_HOST } block_kind;

typedef struct {
  char *p; /* NULL: none */
  size_t n;
  block_kind kind;
  unsigned char value;
  bool pending;          /* tasks of the stream may still use it */
  uint32_t access;       /* of a mapping: 0, 1, 3 */
  aclrtDrvMemHandle own; /* a mapping's, still to be freed */
} block;

typedef struct {
  uint64_t random;
  aclrtStream stream;
  block blocks[BLOCKS], mappings[MAPPINGS];
  char *reserved, *host;
  bool registered;
  size_t n_refused;
} actor;

/* Held for reading by whoever allocates, and where unmapped memory may be given back; for writing where a second
 * free must not meet somebody's new block, and where a refusal is judged. */
static pthread_rwlock_t allocating = PTHREAD_RWLOCK_INITIALIZER;
static _Atomic size_t held_bytes; /* of device memory by all threads, in pages and more */
static size_t total_bytes;
static bool scarce;

static uint32_t below(actor *a, uint32_t n) { return random_below(&a->random, n); }

/* Log-uniform, up to 8 MiB. */
static size_t any_size(actor *a) {
  const uint32_t octave = 1u << below(a, 23);
  return octave + below(a, octave);
}

static block *any_block(actor *a) { return &a->blocks[below(a, BLOCKS)]; }

/* A block or a mapping that a copy may use; NULL where chance hits none. */
static block *usable(actor *a, uint32_t access) {
  if (below(a, 5)) {
    block *b = any_block(a);
    return b->p ? b : NULL;
  }
  block *m = &a->mappings[below(a, MAPPINGS)];
  return m->p && (m->access & access) == access ? m : NULL;
}

static bool is_on_device(const block *b) { return b->kind == DEVICE || b->kind == MAPPED; }

/* The most pages that a block can have a part of, and what the rules add. */
static size_t worst_bytes(size_t n) { return (n + 64 + PAGE - 1) / PAGE * PAGE + PAGE; }

/* ---- contents ---- */

static size_t edge(const block *b) { return b->n < 2 * EDGE ? b->n : EDGE; }
static char *tail(const block *b) { return b->p + b->n - edge(b); }

static void synchronize(actor *a) {
  OK(aclrtSynchronizeStream(a->stream));
  for (int i = 0; i < BLOCKS; i++) a->blocks[i].pending = false;
  for (int i = 0; i < MAPPINGS; i++) a->mappings[i].pending = false;
}

static void settle(actor *a, const block *b) {
  if (b->pending) synchronize(a);
}

static void fill_by_batch(const block *b, char *text, size_t n) {
  void *to[] = {b->p, tail(b)}, *from[] = {text, text};
  size_t sizes[] = {n, n}, first = 0, failed = 0;
  aclrtMemcpyBatchAttr direction = {.dstLoc = {.type = ACL_MEM_LOCATION_TYPE_DEVICE},
                                    .srcLoc = {.type = ACL_MEM_LOCATION_TYPE_HOST}};
  OK(aclrtMemcpyBatch(to, sizes, from, sizes, 2, &direction, &first, 1, &failed));
}

/* Both ends get the byte, by one of the ways there are. */
static void fill(actor *a, block *b) {
  const size_t n = edge(b);
  char text[2 * EDGE];
  b->value = (unsigned char)below(a, 256);
  memset(text, b->value, n);
  switch (is_on_device(b) ? below(a, 5) : below(a, 3)) {
  case 4:
    settle(a, b);
    fill_by_batch(b, text, n);
    break;
  case 3:
    if (b->n % 4 == 0) { /* words start at multiples of 4 */
      const uint32_t word = b->value * 0x01010101u;
      OK(aclrtMemsetD32Async(b->p, n, word, n / 4, a->stream));
      OK(aclrtMemsetD32Async(tail(b), n, word, n / 4, a->stream));
      b->pending = true;
      break;
    }
    /* fall through */
  case 0:
    settle(a, b);
    OK(aclrtMemset(b->p, n, b->value, n));
    OK(aclrtMemset(tail(b), n, b->value, n));
    break;
  case 1:
    OK(aclrtMemsetAsync(b->p, n, b->value, n, a->stream));
    OK(aclrtMemsetAsync(tail(b), n, b->value, n, a->stream));
    b->pending = true;
    break;
  default:
    settle(a, b);
    OK(aclrtMemcpy(b->p, b->n, text, n, ACL_MEMCPY_DEFAULT));
    OK(aclrtMemcpy(tail(b), n, text, n, ACL_MEMCPY_DEFAULT));
  }
}

static void expect_value(const block *b, const char *got, size_t n) {
  for (size_t i = 0; i < n; i++)
    if ((unsigned char)got[i] != b->value) {
      fprintf(stderr, "byte %zu of an end of %zu bytes at %p is %#x, expected %#x\n", i, b->n, (void *)b->p,
              (unsigned char)got[i], b->value);
      HOLDS(!"memory is as in the model");
    }
}

static void check(actor *a, const block *b) {
  char got[2 * EDGE];
  const size_t n = edge(b);
  const char *const at = below(a, 2) ? b->p : tail(b);
  if (is_on_device(b) && below(a, 2)) { /* in the stream; done when it returns, since the host's side is pageable */
    OK(aclrtMemcpyAsync(got, sizeof got, at, n, ACL_MEMCPY_DEVICE_TO_HOST, a->stream));
  } else {
    settle(a, b);
    OK(aclrtMemcpy(got, sizeof got, at, n, ACL_MEMCPY_DEFAULT));
    if (!is_on_device(b)) expect_value(b, at, n);
  }
  expect_value(b, got, n);
}

/* ---- blocks ---- */

static aclError call_malloc(actor *a, block *b) {
  void **out = (void **)&b->p;
  switch (below(a, 6)) {
  case 0: return aclrtMallocAlign32(out, b->n, ACL_MEM_MALLOC_NORMAL_ONLY);
  case 1: return aclrtMallocCached(out, b->n, ACL_MEM_MALLOC_HUGE_FIRST);
  case 2: return aclrtMallocWithCfg(out, b->n, ACL_MEM_MALLOC_HUGE_FIRST, NULL);
  case 3: return aclrtMallocForTaskScheduler(out, b->n, ACL_MEM_MALLOC_HUGE_FIRST, NULL);
  default: return aclrtMalloc(out, b->n, ACL_MEM_MALLOC_HUGE_FIRST);
  }
}

/* Refused only where it does not fit: looked at while nobody else allocates. */
static bool allocate_or_judge(actor *a, block *b) {
  const size_t worst = worst_bytes(b->n);
  pthread_rwlock_rdlock(&allocating);
  aclError code = call_malloc(a, b);
  if (code == ACL_SUCCESS) atomic_fetch_add(&held_bytes, worst);
  pthread_rwlock_unlock(&allocating);
  if (code == ACL_SUCCESS) return true;
  pthread_rwlock_wrlock(&allocating);
  aclGetRecentErrMsg();
  OK(aclrtSynchronizeDevice()); /* what was unmapped while tasks were pending is free then */
  const size_t held = atomic_load(&held_bytes);
  code = call_malloc(a, b);
  if (code == ACL_SUCCESS)
    atomic_fetch_add(&held_bytes, worst);
  else if (code != ACL_ERROR_RT_MEMORY_ALLOCATION || held + worst <= total_bytes)
    give_up(__FILE__, __LINE__, "an allocation that fits is not refused", code);
  pthread_rwlock_unlock(&allocating);
  aclGetRecentErrMsg();
  a->n_refused += code != ACL_SUCCESS;
  return code == ACL_SUCCESS;
}

static void block_new(actor *a, block *b) {
  *b = (block){.n = any_size(a), .kind = (block_kind[]){PINNED, MANAGED, DEVICE}[below(a, 8) < 2 ? below(a, 2) : 2]};
  if (b->kind == PINNED) {
    if (below(a, 2))
      OK(aclrtMallocHost((void **)&b->p, b->n));
    else
      OK(aclrtMallocHostWithCfg((void **)&b->p, b->n, NULL));
  } else if (b->kind == MANAGED) {
    OK(aclrtMemAllocManaged((void **)&b->p, b->n, ACL_RT_MEM_ATTACH_GLOBAL));
  } else if (!allocate_or_judge(a, b)) {
    b->p = NULL;
    return;
  }
  HOLDS((uintptr_t)b->p % 64 == 0);
  fill(a, b);
}

static void block_free(actor *a, block *b) {
  const bool synchronized = below(a, 16) == 0;
  if (scarce) settle(a, b);
  if (b->kind == PINNED) {
    OK(synchronized ? aclrtFreeHostWithDevSync(b->p) : aclrtFreeHost(b->p));
  } else {
    OK(synchronized ? aclrtFreeWithDevSync(b->p) : aclrtFree(b->p));
    if (b->kind == DEVICE) atomic_fetch_sub(&held_bytes, worst_bytes(b->n));
  }
  b->p = NULL;
}

static void step_replace(actor *a) {
  block *b = any_block(a);
  if (b->p) block_free(a, b);
  if (below(a, 4)) block_new(a, b);
}

/* Each end of one goes to an end of the other. */
static void step_copy(actor *a) {
  block *to = usable(a, ACL_RT_MEM_ACCESS_FLAGS_READWRITE), *from = usable(a, ACL_RT_MEM_ACCESS_FLAGS_READ);
  if (!to || !from || to == from || edge(from) < edge(to)) return;
  const size_t n = edge(to);
  const bool wait = (!is_on_device(to) && !is_on_device(from)) || below(a, 3) == 0;
  if (wait && (to->pending || from->pending)) synchronize(a);
  if (wait) {
    OK(aclrtMemcpy(to->p, to->n, from->p, n, ACL_MEMCPY_DEFAULT));
    OK(aclrtMemcpy(tail(to), n, tail(from), n, ACL_MEMCPY_DEFAULT));
  } else {
    OK(aclrtMemcpyAsync(to->p, to->n, from->p, n, ACL_MEMCPY_DEFAULT, a->stream));
    OK(aclrtMemcpyAsync(tail(to), n, tail(from), n, ACL_MEMCPY_DEFAULT, a->stream));
    to->pending = from->pending = true;
  }
  to->value = from->value;
}

static void step_fill(actor *a) {
  block *b = usable(a, ACL_RT_MEM_ACCESS_FLAGS_READWRITE);
  if (b) fill(a, b);
}

static void step_check(actor *a) {
  const block *b = usable(a, ACL_RT_MEM_ACCESS_FLAGS_READ);
  if (b) check(a, b);
}

static void step_synchronize(actor *a) { synchronize(a); }

/* ---- between threads ---- */

static block slots[SLOTS];
static pthread_mutex_t slots_lock = PTHREAD_MUTEX_INITIALIZER;

static void step_exchange(actor *a) {
  block *mine = any_block(a);
  settle(a, mine);
  pthread_mutex_lock(&slots_lock);
  block *slot = &slots[below(a, SLOTS)], other = *slot;
  *slot = *mine;
  pthread_mutex_unlock(&slots_lock);
  *mine = other;
  if (mine->p) check(a, mine);
}

/* ---- what is asked ---- */

static void step_info(actor *a) {
  size_t left = 0, total = 0, mine = 0;
  pthread_rwlock_rdlock(&allocating);
  OK(aclrtGetMemInfo(ACL_HBM_MEM, &left, &total));
  pthread_rwlock_unlock(&allocating);
  HOLDS(total == total_bytes && left <= total);
  for (int i = 0; i < BLOCKS; i++) mine += a->blocks[i].p && a->blocks[i].kind == DEVICE ? a->blocks[i].n : 0;
  for (int i = 0; i < MAPPINGS; i++) mine += a->mappings[i].p && a->mappings[i].kind == MAPPED ? GRANULE : 0;
  HOLDS(total - left >= mine);
}

static void step_attributes(actor *a) {
  const block *b = below(a, 4) ? any_block(a) : &a->mappings[below(a, MAPPINGS)];
  aclrtPtrAttributes attributes;
  void *start = NULL;
  size_t bytes = 0;
  if (!b->p) return;
  char *const inside = b->p + below(a, (uint32_t)b->n);
  OK(aclrtPointerGetAttributes(inside, &attributes));
  const aclrtMemLocationType host_side =
      b->kind == MANAGED ? ACL_MEM_LOCATION_TYPE_MANAGED : ACL_MEM_LOCATION_TYPE_HOST;
  HOLDS(attributes.location.type == (is_on_device(b) ? ACL_MEM_LOCATION_TYPE_DEVICE : host_side));
  OK(aclrtMemGetAddressRange(inside, &start, &bytes));
  HOLDS(start == b->p && bytes >= b->n);
}

/* Advice and moves change no contents. */
static void step_advise(actor *a) {
  block *b = any_block(a);
  int prefers = 99;
  if (!b->p || b->kind != MANAGED) return;
  const aclrtMemManagedLocation place = {below(a, 2) ? ACL_MEM_LOCATIONTYPE_DEVICE : ACL_MEM_LOCATIONTYPE_HOST, 0};
  OK(aclrtMemManagedAdvise(b->p, GRANULE, ACL_MEM_ADVISE_SET_PREFERRED_LOCATION, place));
  OK(aclrtMemManagedPrefetchAsync(b->p, GRANULE, place, 0, a->stream));
  OK(aclrtMemManagedGetAttr(ACL_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, b->p, GRANULE, &prefers, sizeof prefers));
  HOLDS(prefers == (place.type == ACL_MEM_LOCATIONTYPE_DEVICE ? 0 : -1));
  b->pending = true;
}

/* ---- mappings ---- */

static void map_new(actor *a, int i) {
  block *m = &a->mappings[i];
  const bool host = below(a, 4) == 0;
  char *const at = a->reserved + (size_t)i * GRANULE;
  const aclrtPhysicalMemProp prop = {
      .memAttr = ACL_HBM_MEM_HUGE,
      .location = {.type = host ? ACL_MEM_LOCATION_TYPE_HOST : ACL_MEM_LOCATION_TYPE_DEVICE}};
  settle(a, m); /* tasks that use what was mapped there would find the new memory */
  *m = (block){.n = GRANULE, .kind = host ? MAPPED_HOST : MAPPED, .access = ACL_RT_MEM_ACCESS_FLAGS_READWRITE};
  pthread_rwlock_rdlock(&allocating);
  const aclError code = aclrtMallocPhysical(&m->own, GRANULE, &prop, 0);
  if (code == ACL_SUCCESS && !host) atomic_fetch_add(&held_bytes, GRANULE);
  const aclError mapped = code ? code : aclrtMapMem(at, GRANULE, 0, m->own, 0);
  pthread_rwlock_unlock(&allocating);
  if (code) HOLDS(code == ACL_ERROR_RT_MEMORY_ALLOCATION && aclGetRecentErrMsg() && ++a->n_refused);
  if (code) return;
  if (mapped) { /* host memory beside a device's, or the other way round */
    HOLDS(mapped == ACL_ERROR_RT_PARAM_INVALID && aclGetRecentErrMsg());
    OK(aclrtFreePhysical(m->own));
    if (!host) atomic_fetch_sub(&held_bytes, GRANULE);
    return;
  }
  m->p = at;
  if (below(a, 2)) { /* the mapping keeps it */
    OK(aclrtFreePhysical(m->own));
    GIVES(ACL_ERROR_RT_PARAM_INVALID, aclrtFreePhysical(m->own));
    m->own = NULL;
  }
  fill(a, m);
}

static void map_end(block *m) {
  GIVES(ACL_ERROR_RT_PARAM_INVALID, aclrtMapMem(m->p, GRANULE, 0, m, 0)); /* no handle */
  pthread_rwlock_rdlock(&allocating);
  OK(aclrtUnmapMem(m->p));
  GIVES(ACL_ERROR_RT_PARAM_INVALID, aclrtUnmapMem(m->p));
  if (m->own) OK(aclrtFreePhysical(m->own));
  if (m->kind == MAPPED) atomic_fetch_sub(&held_bytes, GRANULE);
  pthread_rwlock_unlock(&allocating);
  m->p = NULL;
}

/* What tasks may do: checked where they are submitted. */
static void map_access(actor *a, block *m) {
  char byte = 0;
  uint64_t flags = 99;
  m->access = (uint32_t[]){0, 1, 3}[below(a, 3)];
  aclrtMemLocation location = {.type = ACL_MEM_LOCATION_TYPE_DEVICE};
  aclrtMemAccessDesc desc = {.flags = (aclrtMemAccessFlags)m->access, .location = location};
  settle(a, m);
  OK(aclrtMemSetAccess(m->p, GRANULE, &desc, 1));
  OK(aclrtMemGetAccess(m->p + below(a, GRANULE), &location, &flags));
  HOLDS(flags == m->access);
  if (m->access < 3) GIVES(ACL_ERROR_RT_PARAM_INVALID, aclrtMemset(m->p, 1, 0, 1));
  if (m->access < 1) GIVES(ACL_ERROR_RT_PARAM_INVALID, aclrtMemcpy(&byte, 1, m->p, 1, ACL_MEMCPY_DEFAULT));
}

static void map_retain(actor *a, const block *m) {
  aclrtDrvMemHandle handle = NULL;
  aclrtPhysicalMemProp prop;
  OK(aclrtMemRetainAllocationHandle(m->p + below(a, GRANULE), &handle));
  OK(aclrtMemGetAllocationPropertiesFromHandle(handle, &prop));
  HOLDS((prop.location.type == ACL_MEM_LOCATION_TYPE_DEVICE) == is_on_device(m));
  OK(aclrtFreePhysical(handle));
}

static void step_map(actor *a) {
  const int i = (int)below(a, MAPPINGS);
  block *m = &a->mappings[i];
  if (!m->p)
    map_new(a, i);
  else if (below(a, 3) == 0)
    map_end(m);
  else if (below(a, 2))
    map_access(a, m);
  else
    map_retain(a, m);
}

/* ---- registered memory ---- */

static void step_register(actor *a) {
  void *device = NULL;
  if (!a->registered) {
    GIVES(ACL_ERROR_HOST_MEMORY_NOT_REGISTERED, aclrtHostUnregister(a->host));
    if (below(a, 2))
      OK(aclrtHostRegister(a->host, HOST_BYTES, ACL_HOST_REGISTER_MAPPED, &device));
    else
      OK(aclrtHostRegisterV2(a->host, HOST_BYTES, ACL_HOST_REG_MAPPED | ACL_HOST_REG_PINNED));
    GIVES(ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED, aclrtHostRegisterV2(a->host + PAGE, PAGE, ACL_HOST_REG_PINNED));
    OK(aclrtHostGetDevicePointer(a->host, &device, 0));
    HOLDS(device == a->host);
  } else {
    synchronize(a);
    OK(aclrtHostUnregister(a->host));
  }
  a->registered = !a->registered;
}

/* From a device block to the program's own memory; pinned, it is written when the stream gets there. */
static void step_download(actor *a) {
  const block *b = usable(a, ACL_RT_MEM_ACCESS_FLAGS_READ);
  if (!b || !is_on_device(b)) return;
  char *const to = a->host + below(a, HOST_BYTES - 2 * EDGE);
  OK(aclrtMemcpyAsync(to, edge(b), tail(b), edge(b), ACL_MEMCPY_DEVICE_TO_HOST, a->stream));
  if (a->registered) synchronize(a);
  expect_value(b, to, edge(b));
}

/* ---- wrong calls ---- */

static void step_free_twice(actor *a) {
  block *b = any_block(a);
  if (!b->p || b->kind != DEVICE) return;
  char *const p = b->p;
  pthread_rwlock_wrlock(&allocating);
  block_free(a, b);
  GIVES(ACL_ERROR_RT_PARAM_INVALID, aclrtFree(p));
  GIVES(ACL_ERROR_RT_PARAM_INVALID, aclrtMemset(p, 1, 0, 1));
  pthread_rwlock_unlock(&allocating);
}

static void step_wrong(actor *a) {
  const block *b = any_block(a), *m = &a->mappings[below(a, MAPPINGS)];
  char local[64], *const inside = b->p ? b->p + 1 + below(a, (uint32_t)b->n) : local;
  void *out = NULL;
  switch (below(a, 12)) {
  case 0: GIVES(ACL_ERROR_INVALID_PARAM, aclrtFree(NULL)); break;
  case 1: GIVES(ACL_ERROR_RT_PARAM_INVALID, aclrtFree(local)); break;
  case 2: GIVES(ACL_ERROR_RT_PARAM_INVALID, aclrtFreeHost(local)); break;
  case 3:
    if (b->p && (size_t)(inside - b->p) < b->n) GIVES(ACL_ERROR_RT_PARAM_INVALID, aclrtFree(inside));
    break;
  case 4: /* the other kind's free */
    if (b->p) GIVES(ACL_ERROR_RT_PARAM_INVALID, b->kind == PINNED ? aclrtFree(b->p) : aclrtFreeHost(b->p));
    break;
  case 5: GIVES(ACL_ERROR_RT_PARAM_INVALID, aclrtFree(a->reserved)); break;
  case 6: GIVES(ACL_ERROR_RT_PARAM_INVALID, aclrtFree(a->host)); break;
  case 7: FAILS(aclrtMalloc(&out, 0, ACL_MEM_MALLOC_HUGE_FIRST)); break;
  case 8: GIVES(ACL_ERROR_RT_MEMORY_ALLOCATION, aclrtMalloc(&out, total_bytes, ACL_MEM_MALLOC_HUGE_FIRST)); break;
  case 9: /* beyond the block, and all that it is rounded up to */
    if (b->p) FAILS(aclrtMemset(b->p, SIZE_MAX, 0, b->n + GRANULE));
    break;
  case 10:
    if (m->p) GIVES(ACL_ERROR_RT_PARAM_INVALID, aclrtReleaseMemAddress(a->reserved));
    break;
  default: GIVES(ACL_ERROR_RT_PARAM_INVALID, aclrtUnmapMem(a->reserved + GRANULE / 2));
  }
}

/* ---- running ---- */

static const struct {
  const char *name;
  void (*run)(actor *);
  uint32_t weight;
} steps[] = {
    {"replace", step_replace, 30},
    {"copy", step_copy, 12},
    {"fill", step_fill, 8},
    {"check", step_check, 16},
    {"exchange", step_exchange, 6},
    {"info", step_info, 1},
    {"attributes", step_attributes, 4},
    {"advise", step_advise, 4},
    {"map", step_map, 2},
    {"register", step_register, 1},
    {"download", step_download, 3},
    {"wrong", step_wrong, 8},
    {"free twice", step_free_twice, 1},
    {"synchronize", step_synchronize, 2},
};
enum { N_KINDS = sizeof steps / sizeof *steps };

static void actor_up(actor *a) {
  OK(aclrtSetDevice(0));
  OK(aclrtCreateStream(&a->stream));
  OK(aclrtReserveMemAddress((void **)&a->reserved, (size_t)MAPPINGS * GRANULE, 0, NULL, 0));
  a->host = aligned_alloc(PAGE, HOST_BYTES);
  HOLDS(a->host);
}

static void actor_down(actor *a) {
  for (int i = 0; i < BLOCKS; i++) {
    if (!a->blocks[i].p) continue;
    check(a, &a->blocks[i]);
    block_free(a, &a->blocks[i]);
  }
  for (int i = 0; i < MAPPINGS; i++)
    if (a->mappings[i].p) map_end(&a->mappings[i]);
  synchronize(a);
  if (a->registered) OK(aclrtHostUnregister(a->host));
  OK(aclrtReleaseMemAddress(a->reserved));
  free(a->host);
  OK(aclrtDestroyStream(a->stream));
  OK(aclrtResetDevice(0));
}

static void *act(void *argument) {
  static _Atomic int number;
  actor *a = argument;
  uint32_t total = 0;
  for (int k = 0; k < N_KINDS; k++) total += steps[k].weight;
  thread_number = atomic_fetch_add(&number, 1);
  actor_up(a);
  for (step = 0; step < n_steps; step++) {
    uint32_t kind = 0;
    for (uint32_t dice = below(a, total); dice >= steps[kind].weight; kind++) dice -= steps[kind].weight;
    doing = steps[kind].name;
    steps[kind].run(a);
  }
  doing = "ending";
  actor_down(a);
  return NULL;
}

static size_t free_bytes(void) {
  size_t left = 0;
  OK(aclrtGetMemInfo(ACL_HBM_MEM, &left, &total_bytes));
  return left;
}

int main(int argc, char **argv) {
  static actor actors[THREADS];
  pthread_t threads[THREADS];
  size_t n_refused = 0;
  char memory[32];
  read_arguments(argc, argv);
  scarce = seed % 2 == 0;
  snprintf(memory, sizeof memory, "%ju", (uintmax_t)(scarce ? SCARCE_MIB : AMPLE_MIB) << 20);
  setenv("CANNON_MEM", memory, 1); /* elsewhere nothing will be refused */
  OK(aclInit(NULL));
  OK(aclrtSetDevice(0));
  const size_t before = free_bytes();
  for (int i = 0; i < THREADS; i++) {
    actors[i].random = seed * THREADS + (uint64_t)i;
    HOLDS(pthread_create(&threads[i], NULL, act, &actors[i]) == 0);
  }
  for (int i = 0; i < THREADS; i++) {
    pthread_join(threads[i], NULL);
    n_refused += actors[i].n_refused;
  }
  for (int i = 0; i < SLOTS; i++)
    if (slots[i].p) block_free(&actors[0], &slots[i]);
  printf("%zu refused\n", n_refused);
  HOLDS(atomic_load(&held_bytes) == 0);
  HOLDS(free_bytes() == before);
  void *all = NULL; /* in one piece, too */
  OK(aclrtMallocAlign32(&all, before, ACL_MEM_MALLOC_HUGE_FIRST));
  OK(aclrtFree(all));
  OK(aclrtResetDevice(0));
  OK(aclFinalize());
  return 0;
}
