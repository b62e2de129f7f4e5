/* SPDX-License-Identifier: Apache-2.0 */
/* What the library refuses in any case, as findings: operands out of bounds, freed blocks, bad frees, objects that were
 * destroyed, accesses of the host to device memory. It listens to the errors that calls return and to faults, and keeps
 * a table of blocks with their stacks, so that it can tell which block was meant, and who freed it. */
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "base/hooks.h"
#include "base/lock.h"
#include "base/status.h"
#include "check/check.h"
#include "check/finding.h"
#include "check/leaks/handle_table.h"
#include "trace/stack.h"

/* Which errors are findings, by their words; the first row that fits counts. A row whose cure is NULL is no finding. */
static const struct {
  check_part part;
  finding_kind kind;
  const char *words; /* a pattern as in shells */
  const char *cure;
} refusals[] = {
    {CHECK_USAGE, FINDING_MISUSE, "a failed task has stopped *", NULL}, /* it was told when it failed */
    {CHECK_BOUNDS, FINDING_OUT_OF_BOUNDS, "*end beyond the block of*",
     "Allocate what the shape, strides and offset of the view reach, or make the view smaller."},
    {CHECK_BOUNDS, FINDING_OUT_OF_BOUNDS, "workspaceSize is *, expected the *",
     "Pass at least what GetWorkspaceSize returned for this executor."},
    {CHECK_BOUNDS, FINDING_OUT_OF_BOUNDS, "*is in no live block*",
     "Pass an address inside a block that is still allocated."},
    {CHECK_BOUNDS, FINDING_OUT_OF_BOUNDS, "*more than destMax*", "Copy no more than the destination holds."},
    {CHECK_BOUNDS, FINDING_OUT_OF_BOUNDS, "*[[]*] is *, expected * to *", "Keep indices inside the dimension."},
    {CHECK_BOUNDS, FINDING_OUT_OF_BOUNDS, "*an index of *, expected *", "Keep indices inside the dimension."},
    {CHECK_HOST, FINDING_HOST_ACCESS, "*is no device or pinned memory*",
     "Copy the data to memory of aclrtMalloc first: the device does not reach the host's own memory."},
    {CHECK_HOST, FINDING_HOST_ACCESS, "kind is *, but * device memory", "Pass the kind that fits both addresses."},
    {CHECK_LIFETIME, FINDING_USE_AFTER_FREE, "*(destroyed?)*", "Destroy an object after its last use only."},
    {CHECK_LIFETIME, FINDING_USE_AFTER_FREE, "*(destroyed, or its device reset?)*",
     "Destroy a context, or reset its device, after its last use only."},
    {CHECK_USAGE, FINDING_MISUSE, "executor * was launched before*",
     "Call GetWorkspaceSize for each launch, or make the executor repeatable by aclSetAclOpExecutorRepeatable."},
    {CHECK_USAGE, FINDING_MISUSE, "executor * is no valid executor*", "Call GetWorkspaceSize for each launch."},
    {CHECK_USAGE, FINDING_MISUSE, "executor * is of *", "Launch an executor by the function that made it."},
};

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

typedef struct block_memo {
  struct block_memo *next; /* of the bucket */
  uintptr_t address;
  uint64_t bytes;
  uint32_t made, freed; /* stacks; freed: 0 while it is live */
  char call[FINDING_NAME];
} block_memo;

enum {
  N_BUCKETS = 1 << 12,
  MAX_FREED = 1 << 14, /* freed blocks that are remembered */
};

static mutex memos_lock = MUTEX_INITIALIZER(SHADOW); /* guards the variables below */
static block_memo *buckets[N_BUCKETS];
static block_memo *freed[MAX_FREED]; /* a ring, in the order of frees; not in the buckets any more */
static uint64_t n_freed;

static block_memo **memo_bucket(uintptr_t address) {
  return &buckets[(uint64_t)address * UINT64_C(0x9e3779b97f4a7c15) >> 52];
}

static void refused_on_alloc(const hook_block *b) {
  if (b->is_internal) return;
  block_memo *m = malloc(sizeof *m);
  if (!m) return;
  *m = (block_memo){.address = b->address, .bytes = b->requested, .made = stack_take()};
  strncpy(m->call, b->call ? b->call : "", sizeof m->call - 1);
  mutex_lock(&memos_lock);
  block_memo **bucket = memo_bucket(b->address);
  m->next = *bucket;
  *bucket = m;
  mutex_unlock(&memos_lock);
}

static void refused_on_free(const hook_block *b, void *site) {
  (void)site;
  if (b->is_internal) return;
  const uint32_t stack = stack_take();
  mutex_lock(&memos_lock);
  block_memo **at = memo_bucket(b->address);
  while (*at && (*at)->address != b->address) at = &(*at)->next;
  block_memo *m = *at;
  if (m) {
    *at = m->next;
    m->freed = stack;
    block_memo **oldest = &freed[n_freed++ % MAX_FREED];
    free(*oldest);
    *oldest = m;
  }
  mutex_unlock(&memos_lock);
}

static bool memo_holds(const block_memo *m, uintptr_t address) {
  return address - m->address < (m->bytes ? m->bytes : 1);
}

/* The live block with the address, or the one with it that was freed last. */
static bool memo_find(uintptr_t address, block_memo *found) {
  const block_memo *m = NULL;
  mutex_lock(&memos_lock);
  for (int i = 0; !m && i < N_BUCKETS; ++i)
    for (m = buckets[i]; m && !memo_holds(m, address);) m = m->next;
  for (uint64_t i = n_freed; !m && i && i + MAX_FREED > n_freed; --i) {
    const block_memo *f = freed[(i - 1) % MAX_FREED];
    if (memo_holds(f, address)) m = f;
  }
  if (m) *found = *m;
  mutex_unlock(&memos_lock);
  return m;
}

/* ---- findings ---------------------------------------------------------------------------------------------------- */

/* Adds what is known of the block with this address. Returns whether it is freed. */
static bool refused_add_block(finding *f, uintptr_t address) {
  block_memo m;
  if (!address || !memo_find(address, &m)) return false;
  f->allocation.address = m.address;
  f->allocation.bytes = m.bytes;
  f->allocation.stack = m.made;
  memcpy(f->allocation.call, m.call, sizeof m.call);
  f->first = address - m.address;
  if (!m.freed) return false;
  f->other = (finding_place){.what = "the free", .stack = m.freed, .stream = -1, .device = -1};
  return true;
}

static uintptr_t known_address(const char *words) {
  block_memo unused;
  for (const char *at = words; (at = strstr(at, "0x")); ++at) {
    const uintptr_t address = strtoull(at, NULL, 16);
    if (memo_find(address, &unused)) return address;
  }
  return 0;
}

static finding finding_of_call(finding_kind kind, const char *call) {
  finding f = {.kind = kind, .here = {.stream = -1, .device = -1}, .other = {.stream = -1, .device = -1}};
  strncpy(f.here.what, call, sizeof f.here.what - 1);
  return f;
}

static _Thread_local uintptr_t bad_address; /* a bad free whose error is not published yet */
static _Thread_local bool is_bad_free;

static void refused_on_bad_free(uintptr_t address, void *site, char *words, size_t bytes) {
  (void)site, (void)words, (void)bytes;
  is_bad_free = true;
  bad_address = address;
}

static void report_bad_free(const char *call, const char *words) {
  is_bad_free = false;
  if (!check_wants(CHECK_LIFETIME)) return;
  finding f = finding_of_call(FINDING_INVALID_FREE, call);
  if (refused_add_block(&f, bad_address) && f.first == 0) f.kind = FINDING_DOUBLE_FREE;
  finding_say(&f, "%s: %s. %s", call, words[0] ? words : "the free was refused",
              f.kind == FINDING_DOUBLE_FREE ? "Free a block once: forget its address when it is freed."
                                            : "Pass what the allocating function gave to the function that frees it.");
  finding_report(&f);
}

static void refused_on_error(const char *call, status code, const char *words) {
  (void)code;
  if (handle_table_told_error()) return; /* with more words, by the part for usage */
  if (is_bad_free) {
    report_bad_free(call, words);
    return;
  }
  for (size_t i = 0; i < sizeof refusals / sizeof *refusals; ++i) {
    if (fnmatch(refusals[i].words, words, 0) != 0) continue;
    if (!refusals[i].cure) return;
    finding f = finding_of_call(refusals[i].kind, call);
    const bool was_freed = refused_add_block(&f, known_address(words));
    if (was_freed) f.kind = FINDING_USE_AFTER_FREE;
    finding_say(&f, "%s: %s. %s", call, words, was_freed ? "Free a block after its last use only." : refusals[i].cure);
    if (check_wants(was_freed ? CHECK_LIFETIME : refusals[i].part)) finding_report(&f);
    return;
  }
}

/* The handler's words have several lines that begin with "cannon: ". */
static void refused_on_fault(uintptr_t address, const char *words) {
  static const char begin[] = "cannon: ";
  char text[FINDING_MESSAGE];
  size_t n = 0;
  for (const char *at = words; *at && n + 1 < sizeof text;) {
    if (strncmp(at, begin, sizeof begin - 1) == 0) at += sizeof begin - 1;
    while (*at && *at != '\n' && n + 1 < sizeof text) text[n++] = *at++;
    if (*at == '\n' && *++at && n + 1 < sizeof text) text[n++] = ' ';
  }
  text[n] = '\0';
  finding f = finding_of_call(FINDING_HOST_ACCESS, "host access");
  if (refused_add_block(&f, address)) f.kind = FINDING_USE_AFTER_FREE;
  finding_say(&f, "%s", text);
  finding_report(&f);
  findings_end(); /* the handler of the program may still go on, but mostly this is the end */
}

static void refused_start(void) {
  static const hooks listener = {
      .alloc = refused_on_alloc, .free = refused_on_free, .bad_free = refused_on_bad_free, .fault = refused_on_fault};
  static const hooks without_faults = {
      .alloc = refused_on_alloc, .free = refused_on_free, .bad_free = refused_on_bad_free};
  static bool is_started; /* the module is there for several parts */
  if (is_started) return;
  is_started = true;
  hooks_add(check_wants(CHECK_HOST) ? &listener : &without_faults);
  error_listen(refused_on_error);
}

const check_module refused_bounds = {CHECK_BOUNDS, refused_start, NULL};
const check_module refused_lifetime = {CHECK_LIFETIME, refused_start, NULL};
const check_module refused_host = {CHECK_HOST, refused_start, NULL};
const check_module refused_usage = {CHECK_USAGE, refused_start, NULL};
