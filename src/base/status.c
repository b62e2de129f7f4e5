/* SPDX-License-Identifier: Apache-2.0 */
#include "base/status.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error_calls.h"
#include "base/forks.h"
#include "base/lock.h"
#include "base/log.h"

enum { PENDING_BYTES = 512, RECENT_BYTES = 4096, RECENT_MESSAGES = 64 };

typedef struct thread_words thread_words;

/* A store of published messages, newest first, and the text that was handed out last. If there is no room for a
 * message, the oldest ones are lost, or the end of it. */
typedef struct {
  int n;
  struct {
    const thread_words *of; /* the thread that published it: only compared */
    int bytes;
  } message[RECENT_MESSAGES];
  char text[RECENT_BYTES];  /* the messages, each of which ends with a line feed */
  char taken[RECENT_BYTES]; /* without the last line feed */
} recent_store;

/* A thread's messages: the published ones, and the pending and the last taken text of fail(). */
struct thread_words {
  recent_store recent;
  uint64_t failed_at; /* error_n_calls when the latest message was published */
  char pending[PENDING_BYTES], taken[PENDING_BYTES];
};

_Thread_local uint64_t error_n_calls;
static _Thread_local status last_error;
static _Thread_local thread_words *words_of_thread; /* made by the thread's first failure */

static pthread_key_t words_key;
static pthread_once_t words_once = PTHREAD_ONCE_INIT;
static mutex process_lock = MUTEX_INITIALIZER(PROCESS_ERROR); /* guards process_store */
FORK_RENEWS(process_lock)
static recent_store process_store;
static _Atomic bool process_scope;
enum { MOST_LISTENERS = 4 };
static error_listener *_Atomic listening[MOST_LISTENERS]; /* NULL: no more listen */
static _Atomic int n_listening;

static void make_words_key(void) { pthread_key_create(&words_key, free); }

/* Returns NULL where there is no memory; the thread then has error codes but no messages. */
static thread_words *own_words(void) {
  if (!words_of_thread) {
    pthread_once(&words_once, make_words_key);
    words_of_thread = calloc(1, sizeof *words_of_thread);
    pthread_setspecific(words_key, words_of_thread);
  }
  return words_of_thread;
}

void fail_words(const char *format, ...) {
  thread_words *own = own_words();
  va_list args;
  va_start(args, format);
  if (own) vsnprintf(own->pending, sizeof own->pending, format, args);
  va_end(args);
}

const char *fail_take(void) {
  thread_words *own = words_of_thread;
  if (!own) return "";
  memcpy(own->taken, own->pending, sizeof own->taken);
  own->pending[0] = '\0';
  return own->taken;
}

/* The catalogue number that CANN puts before a message of this kind (semantics page, 1.4). */
static const char *catalogue_number(status code) {
  switch (code) {
  case ST_INVALID_PARAM: return "EH0007";
  case ST_REPEATED_INIT:
  case ST_STREAM_NOT_CAPTURED:
  case ST_CAPTURE_UNMATCHED:
  case ST_CAPTURE_THREAD:
  case ST_GROUP_STATUS:
  case ST_REPEATED_FINALISE: return "EE1018";
  case ST_CONFIG_PATH:
  case ST_CONFIG_PARSE:
  case ST_CONFIG_ATTRIBUTE: return "EH0009";
  case ST_OTHER_CONTEXT: return "EE1010";
  case ST_STREAM_TIMEOUT:
  case ST_EVENT_TIMEOUT: return "EE1002";
  case ST_NOT_SUPPORTED: return "EE1005";
  case ST_OP_NULL:
  case ST_OP_INVALID: return "EZ1001";
  default: return "EE1003";
  }
}

/* Whether the call ends an object or gives something back. */
static bool only_ends(const char *call) {
  static const char *const words[] = {"Destroy", "Free",       "Reset",   "Unload",
                                      "Unmap",   "Unregister", "Release", "Finalize"};
  for (size_t i = 0; i < sizeof words / sizeof *words; ++i)
    if (strstr(call, words[i])) return true;
  return false;
}

static int recent_bytes(const recent_store *store) {
  int bytes = 0;
  for (int i = 0; i < store->n; ++i) bytes += store->message[i].bytes;
  return bytes;
}

/* Removes the messages of a thread. */
static void recent_forget(recent_store *store, const thread_words *of) {
  int n = 0, from = 0, to = 0;
  for (int i = 0; i < store->n; ++i) {
    const int bytes = store->message[i].bytes;
    if (store->message[i].of != of) {
      memmove(store->text + to, store->text + from, (size_t)bytes);
      store->message[n++] = store->message[i];
      to += bytes;
    }
    from += bytes;
  }
  store->n = n;
}

static void recent_add(recent_store *store, const char *line, const thread_words *of) {
  const int bytes = (int)strlen(line) + 1;
  while (store->n && (store->n == RECENT_MESSAGES || recent_bytes(store) + bytes > RECENT_BYTES)) --store->n;
  memmove(store->text + bytes, store->text, (size_t)recent_bytes(store));
  memmove(store->message + 1, store->message, (size_t)store->n * sizeof store->message[0]);
  memcpy(store->text, line, (size_t)bytes - 1);
  store->text[bytes - 1] = '\n';
  store->message[0].of = of;
  store->message[0].bytes = bytes;
  ++store->n;
}

/* error_calls.h says which messages belong together. The failing call has not ended yet; so if it follows the one that
 * published last, just that one has ended since. */
static void recent_publish(recent_store *store, const char *line, thread_words *own, const char *call) {
  if (error_n_calls > own->failed_at + 1 && !only_ends(call)) recent_forget(store, own);
  recent_add(store, line, own);
  own->failed_at = error_n_calls;
}

int error_publish_as(const char *number, int code, const char *call) {
  char line[PENDING_BYTES + 128];
  const char *words = fail_take();
  snprintf(line, sizeof line, "%s: %s: %s (error %d)", number, call, words[0] ? words : "failed", code);
  error_listener *told;
  for (int i = 0; i < MOST_LISTENERS && (told = atomic_load_explicit(&listening[i], memory_order_acquire)); ++i)
    told(call, code, words);
  log_line(LOG_ERROR, "%s", line);
  thread_words *own = own_words();
  if (!own) return code;
  if (process_scope) {
    mutex_lock(&process_lock);
    recent_publish(&process_store, line, own, call);
    mutex_unlock(&process_lock);
  } else {
    recent_publish(&own->recent, line, own, call);
  }
  return code;
}

status error_publish(status code, const char *call) {
  last_error = code;
  return error_publish_as(catalogue_number(code), code, call);
}

void error_listen(error_listener *added) {
  const int i = atomic_fetch_add(&n_listening, 1);
  assert(i < MOST_LISTENERS);
  atomic_store_explicit(&listening[i], added, memory_order_release);
}

static const char *take_recent(recent_store *store) {
  if (!store->n) return NULL;
  const int bytes = recent_bytes(store);
  memcpy(store->taken, store->text, (size_t)bytes);
  store->taken[bytes - 1] = '\0';
  store->n = 0;
  return store->taken;
}

const char *error_recent(void) {
  if (!process_scope) return words_of_thread ? take_recent(&words_of_thread->recent) : NULL;
  mutex_lock(&process_lock);
  const char *text = take_recent(&process_store);
  mutex_unlock(&process_lock);
  return text;
}

void error_scope_process(bool process) { process_scope = process; }

status error_last_peek(void) { return last_error; }

status error_last_take(void) {
  const status code = last_error;
  last_error = ST_OK;
  return code;
}
