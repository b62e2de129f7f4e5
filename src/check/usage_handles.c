/* SPDX-License-Identifier: Apache-2.0 */
/* Handles that are destroyed twice or used afterwards, and calls that use what a failed call did not make. */
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "check/leaks/handle_table.h"
#include "check/usage.h"
#include "trace/stack.h"

/* ---- failed calls whose results are used ------------------------------------------------------------------------- */

/* What calls make, and the calls that use it: patterns of their names. A failed maker is remembered by its thread until
 * another one makes the same; a call that is then given nothing, or no such thing, used the result unseen. */
static const struct {
  const char *maker;    /* a part of the maker's name */
  const char *user;     /* a part of the name of a call that uses it */
  uint32_t first, last; /* kinds of handles */
} families[] = {
    {"GetWorkspaceSize", "acl", HOOK_EXECUTOR, HOOK_EXECUTOR},
    {"aclCreateTensor", "acl", HOOK_TENSOR, HOOK_TENSOR_LIST},
    {"aclCreateScalar", "acl", HOOK_SCALAR, HOOK_SCALAR_LIST},
    {"aclCreateIntArray", "acl", HOOK_INT_ARRAY, HOOK_INT_ARRAY},
    {"aclCreateFloatArray", "acl", HOOK_FLOAT_ARRAY, HOOK_FLOAT_ARRAY},
    {"aclCreateBoolArray", "acl", HOOK_BOOL_ARRAY, HOOK_BOOL_ARRAY},
    {"CreateStream", "Stream", HOOK_STREAM, HOOK_STREAM},
    {"CreateEvent", "Event", HOOK_EVENT, HOOK_EVENT},
    {"CreateNotify", "Notify", HOOK_NOTIFY, HOOK_NOTIFY},
    {"CreateContext", "Context", HOOK_CONTEXT, HOOK_CONTEXT},
    {"aclrtMalloc", "aclrtMem", HANDLE_DEVICE_BLOCK, HANDLE_PHYSICAL},
    {"HcclCommInit", "Hccl", HOOK_COMM, HOOK_COMM},
};
enum { N_FAMILIES = sizeof families / sizeof *families, WORDS = 160 };

typedef struct {
  int family; /* index + 1; 0: no call has failed */
  char call[FINDING_NAME], words[WORDS];
  status code;
  uint32_t stack;
} failed_maker;
static _Thread_local failed_maker failed;

static bool is_of_family(int family, uint32_t kind) {
  return family && kind >= families[family - 1].first && kind <= families[family - 1].last;
}

static void on_made(uint32_t kind) {
  if (is_of_family(failed.family, kind)) failed.family = 0;
}

static void report_unseen(const char *call) {
  finding f = usage_finding(call);
  f.other = (finding_place){.stack = failed.stack, .stream = -1, .device = -1};
  memcpy(f.other.what, failed.call, sizeof f.other.what);
  finding_say(&f,
              "%s was given what %s should have made, but that call had failed (error %d: %s). Look at what %s returns "
              "before you use its result.",
              call, failed.call, failed.code, failed.words, failed.call);
  failed.family = 0;
  finding_report(&f);
}

/* Whether the call uses the handle that a failed call has not made. An executor is used by its own operator's second
 * phase only. */
static bool uses_failed(const char *call, const char *words) {
  if (!failed.family || !strstr(call, families[failed.family - 1].user)) return false;
  if (!strstr(words, " is NULL, expected") || strstr(call, families[failed.family - 1].maker)) return false;
  if (families[failed.family - 1].first != HOOK_EXECUTOR) return strncmp(call, "aclCreateTensorDesc", 19) != 0;
  const size_t n = strlen(call);
  return strncmp(failed.call, call, n) == 0 && strcmp(failed.call + n, "GetWorkspaceSize") == 0;
}

static void usage_on_error(const char *call, status code, const char *words) {
  if (uses_failed(call, words)) report_unseen(call);
  for (int i = 0; i < N_FAMILIES; ++i) {
    if (!strstr(call, families[i].maker)) continue;
    failed = (failed_maker){.family = i + 1, .code = code, .stack = stack_take()};
    snprintf(failed.call, sizeof failed.call, "%s", call);
    snprintf(failed.words, sizeof failed.words, "%s", words[0] ? words : "no message");
    return;
  }
  if (code < 107024 || code > 107041 || strstr(words, "is NULL")) return;
  finding f = usage_finding(call); /* the rules of captures */
  finding_say(&f,
              "%s: %s. A stream that is being captured takes tasks, and neither waits nor is asked before "
              "aclmdlRICaptureEnd: move the call out of the capture.",
              call, words);
  finding_report(&f);
}

/* ---- destroyed handles ------------------------------------------------------------------------------------------- */

static const char *name_of_call(const handle_problem *p) {
  if (p->call) return p->call;
  return p->act == HOOK_HANDLE_REFUSED ? "a call" : handle_destroyer(p->kind);
}

static void say_twice(finding *f, const handle_problem *p) {
  const char *call = name_of_call(p), *word = handle_word(p->kind);
  if (p->kind == HOOK_EXECUTOR) {
    finding_say(
        f,
        "%s was given an executor of %s that %s has used up already. Call GetWorkspaceSize anew for each launch, "
        "or aclSetAclOpExecutorRepeatable before the first one.",
        call, p->before->made_by ? p->before->made_by : "phase one",
        p->before->gone_by ? p->before->gone_by : "an earlier launch");
  } else if (p->before->by) {
    finding_say(f,
                "%s was given a %s whose context is gone: it went with the context, or with the device's reset. Use "
                "streams before their context is destroyed, and make new ones in a new context.",
                call, word);
  } else if (p->act == HOOK_HANDLE_REFUSED) {
    finding_say(f, "%s was given the %s %p, which was destroyed before. Destroy it after its last use.", call, word,
                (void *)p->handle);
  } else {
    f->kind = FINDING_DOUBLE_FREE;
    finding_say(f, "%s was given the %s %p, which was destroyed before. Destroy it once, and forget the handle then.",
                call, word, (void *)p->handle);
  }
}

static void on_problem(const handle_problem *p) {
  const char *call = name_of_call(p), *word = handle_word(p->kind);
  finding f = usage_finding(call);
  if (p->act == HOOK_HANDLE_ADOPTED) {
    f.other = (finding_place){.what = "the list", .stack = p->owner_stack, .stream = -1, .device = -1};
    finding_say(&f,
                "%s destroys the %s %p, which belongs to a list. Destroy the list only: it destroys its members, of "
                "which this one is gone by then.",
                call, word, (void *)p->handle);
  } else if (p->before) {
    f.other = (finding_place){.what = "destroyed", .stack = p->before->gone, .stream = -1, .device = -1};
    f.allocation.stack = p->before->made;
    snprintf(f.allocation.call, sizeof f.allocation.call, "%s", p->before->made_by ? p->before->made_by : "");
    say_twice(&f, p);
  } else if (is_of_family(failed.family, p->kind)) {
    handle_table_tells_error(p->act != HOOK_HANDLE_DESTROYED);
    report_unseen(call);
    return;
  } else if (p->act == HOOK_HANDLE_REFUSED) {
    return; /* the error says so */
  } else {
    f.kind = FINDING_INVALID_FREE;
    finding_say(&f, "%s was given %p, which is no %s, and was none before. Pass what the call that makes such gave.",
                call, (void *)p->handle, word);
  }
  handle_table_tells_error(p->act == HOOK_HANDLE_REFUSED || p->act == HOOK_HANDLE_NOT_DESTROYED ||
                           (p->kind == HOOK_EXECUTOR && p->act == HOOK_HANDLE_DESTROYED));
  finding_report(&f);
}

void usage_handles_start(void) {
  handle_table_start();
  handle_table_on_problem(on_problem);
  handle_table_on_made(on_made);
  error_listen(usage_on_error);
}
