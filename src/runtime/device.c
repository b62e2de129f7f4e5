/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/device.h"

#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hooks.h"
#include "base/invariant.h"
#include "base/lock.h"
#include "base/settings/variables.h"
#include "base/size.h"
#include "base/text.h"
#include "memory/host.h"
#include "memory/memory.h"
#include "memory/share/ledger.h"
#include "memory/share/machine.h"
#include "runtime/dry/dry.h"
#include "runtime/scheduler.h"
#include "trace/profiler.h"
#include "trace/profiler_memory.h"
#include "trace/record/record.h"
#include "trace/stats_write.h"

static struct {
  const device_profile *profile;
  int n_devices;
  int physical[SPACE_MAX_DEVICES]; /* the number of each device on the machine, before ASCEND_RT_VISIBLE_DEVICES */
  uint64_t memory_bytes;
  bool check_host;
  variable_words wrong; /* a message about the variable that is why there are no devices; else empty */
} machine;
static pthread_once_t machine_once = PTHREAD_ONCE_INIT;

static struct {
  mutex lock; /* guards count and primary; never held during a wait */
  unsigned count;
  context *primary;
  _Atomic uint32_t n_streams, n_stream_ids, n_events;
} devices[SPACE_MAX_DEVICES] = {[0 ... SPACE_MAX_DEVICES - 1] = {.lock = MUTEX_INITIALIZER(DEVICE)}};

static _Atomic int default_device = -1;
_Atomic bool device_is_child;

/* Says at which entry of the list parsing has stopped, and what is left: CANN takes such a list without a word. */
static void say_stopped(const char *list, const char *entry, int count) {
  char shown[128], wrong[64];
  text_safe(shown, sizeof shown, list, strlen(list));
  text_safe(wrong, sizeof wrong, entry, strcspn(entry, ","));
  fprintf(stderr,
          "cannon: ASCEND_RT_VISIBLE_DEVICES is '%s', whose entry '%s' is wrong, expected ascending numbers of devices "
          "from 0 to %d with commas between them; parsing stops there, as in CANN, so the program sees %d device%s\n",
          shown, wrong, machine.n_devices - 1, count, count == 1 ? "" : "s");
}

/* Keeps the devices of ASCEND_RT_VISIBLE_DEVICES: numbers below n_devices, ascending, separated by commas. Parsing
 * stops at anything else. An empty list hides all devices, which is usual. */
static void keep_visible(const char *list) {
  int count = 0, last = -1;
  const char *entry = *list && machine.n_devices ? list : NULL;
  while (entry) {
    char *end = NULL;
    const long id = isdigit((unsigned char)*entry) ? strtol(entry, &end, 10) : -1;
    const bool is_device = id > last && id < machine.n_devices;
    if (is_device) machine.physical[count++] = last = (int)id;
    if (!is_device || (*end && *end != ',')) {
      say_stopped(list, entry, count);
      break;
    }
    entry = *end ? end + 1 : NULL;
  }
  INVARIANT(count <= machine.n_devices);
  machine.n_devices = count;
}

/* The memory of each device in whole granules: CANNON_MEM, or that of the profile, but at most 80 % of the host's. A
 * dry run touches little of it, so there the host's memory does not matter. */
static uint64_t memory_wanted(uint64_t host) {
  const uint64_t device = profile_memory_bytes(machine.profile), granule = HEAP_GRANULE_BYTES;
  uint64_t wanted = device < host / 10 * 8 || dry_is_on() ? device : host / 10 * 8;
  if (variable_read(VARIABLE_MEM, &wanted) && wanted % granule)
    fprintf(stderr, "cannon: CANNON_MEM is %s; taking %juM, whole pages of 2 MiB\n", variable_text(VARIABLE_MEM),
            (uintmax_t)(wanted / granule * granule >> 20));
  return wanted / granule * granule;
}

/* If a variable that describes the devices has a wrong value, there are no devices, and machine.wrong says why. */
static void read_machine(void) {
  static const variable deciding[] = {VARIABLE_DEVICE, VARIABLE_DEVICES, VARIABLE_MEM};
  const char *name = variable_text(VARIABLE_DEVICE), *visible = getenv("ASCEND_RT_VISIBLE_DEVICES");
  uint64_t n = 1;
  machine.profile = profile_find(name ? name : PROFILE_DEFAULT_SOC);
  if (!machine.profile) {
    variable_reject(VARIABLE_DEVICE, name);
    machine.profile = profile_find(PROFILE_DEFAULT_SOC);
  }
  profiler_describe(&(profiler_device){.cube_cores = machine.profile->cube_cores,
                                       .vector_cores = machine.profile->vector_cores,
                                       .ai_cpus = machine.profile->ai_cpus,
                                       .core_hz = machine.profile->core_hz});
  dry_configure();
  variables_report();
  variable_read(VARIABLE_DEVICES, &n);
  for (size_t i = 0; i < sizeof deciding / sizeof *deciding && !*machine.wrong.text; ++i)
    if (variable_is_bad(deciding[i], &machine.wrong)) n = 0;
  machine.n_devices = (int)n;
  for (int d = 0; d < machine.n_devices; ++d) machine.physical[d] = d;
  if (visible) keep_visible(visible);

  const uint64_t host = host_total_bytes();
  machine.memory_bytes = memory_wanted(host);
  if (machine.memory_bytes > space_stride()) machine.memory_bytes = space_stride();
  machine.check_host = machine.memory_bytes <= host && !dry_is_on();
  if (!machine.check_host && !dry_is_on())
    fprintf(stderr, "cannon: warning: the device is given %s, the host has %s; only the former is enforced\n",
            size_in_words(machine.memory_bytes).text, size_in_words(host).text);
}

static void need_machine(void) { pthread_once(&machine_once, read_machine); }

int device_count(void) {
  need_machine();
  return machine.n_devices;
}

const device_profile *device_profile_of_all(void) {
  need_machine();
  return machine.profile;
}

uint64_t device_memory_bytes(void) {
  need_machine();
  return machine.memory_bytes;
}

int device_physical(int device) {
  INVARIANT(device >= 0 && device < device_count());
  return machine.physical[device];
}

int device_of_physical(int64_t physical) {
  for (int d = 0; d < device_count(); ++d)
    if (machine.physical[d] == physical) return d;
  return -1;
}

status device_machine_check(void) {
  need_machine();
  return *machine.wrong.text ? fail(ST_INVALID_DEVICE, "there are no devices: %s", machine.wrong.text) : ST_OK;
}

static const char *why_none(void) {
  return getenv("ASCEND_RT_VISIBLE_DEVICES") ? "ASCEND_RT_VISIBLE_DEVICES leaves none" : "CANNON_DEVICES is 0";
}

status device_check(int64_t device, const char *name) {
  const int n = device_count();
  if (device >= 0 && device < n) return ST_OK;
  TRY(device_machine_check());
  if (!n)
    return fail(ST_INVALID_DEVICE, "%s is %jd, but there are no devices (%s)", name, (intmax_t)device, why_none());
  return fail(ST_INVALID_DEVICE, "%s is %jd, expected 0 to %d", name, (intmax_t)device, n - 1);
}

/* ---- the process ------------------------------------------------------------------------------------------------- */

/* The child of a fork has none of the threads and no device memory. It may go on and exit, but not use a device. */
static void device_in_child(void) {
  atomic_store(&device_is_child, true);
  thread_forget();
  memory_forget();
}

static void device_at_exit(void) {
  if (atomic_load(&device_is_child)) return;
  scheduler_stop();
  memory_list_leaks(trace_stats());
  profiler_close();
  trace_close();
  machine_quit();
  record_trim();
}

static void join_machine(void) {
  char name[64];
  snprintf(name, sizeof name, "%s-%juM%s", machine.profile->soc_name, (uintmax_t)(machine.memory_bytes >> 20),
           dry_is_on() ? "-dry" : "");
  ledger_set_devices(machine.physical, machine.n_devices);
  machine_join(name);
  ledger_serve(memory_give_back);
}

static void process_start(void) {
  static const heap_fences fences = {&scheduler_n_listed, scheduler_has_pending, scheduler_fence_take,
                                     scheduler_fence_passed};
  memory_set_fences(&fences);
  join_machine();
  memory_slack_bytes = (uint32_t)machine.profile->alloc_extra_bytes;
  pthread_atfork(NULL, NULL, device_in_child);
  atexit(device_at_exit);
  stats_file *s = trace_stats();
  snprintf(s->soc_name, sizeof s->soc_name, "%s", machine.profile->soc_name);
  for (int d = 0; d < machine.n_devices; ++d) atomic_store(&s->physical[d], machine.physical[d]);
  atomic_store(&s->n_devices, (uint64_t)machine.n_devices);
  record_start(machine.profile->soc_name, machine.n_devices, machine.memory_bytes);
  profiler_memory_start();
}

status device_refuse_child(void) {
  return fail(ST_NO_CONTEXT, "this process was forked from one that used the device, whose state a child does not "
                             "inherit: use exec after fork");
}

status device_open(int device) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  TRY(device_check_child());
  TRY(device_check(device, "deviceId"));
  pthread_once(&once, process_start);
  return memory_open_device(device, machine.memory_bytes, machine.check_host);
}

/* ---- set and reset ----------------------------------------------------------------------------------------------- */

status device_set(int device) {
  TRY(device_open(device));
  status st = ST_OK;
  mutex_lock(&devices[device].lock);
  if (!devices[device].primary) st = context_create(device, true, &devices[device].primary);
  if (st == ST_OK) {
    ++devices[device].count;
    thread_set_context(devices[device].primary);
  }
  INVARIANT(!devices[device].count == !devices[device].primary);
  mutex_unlock(&devices[device].lock);
  if (st == ST_OK) hooks_tell_use(HOOK_USE_DEVICE_SET, device);
  return st;
}

status device_reset(int device, bool force) {
  TRY(device_check_child());
  TRY(device_check(device, "deviceId"));
  mutex_lock(&devices[device].lock);
  if (!devices[device].count) {
    mutex_unlock(&devices[device].lock);
    return fail(ST_INVALID_VALUE, "deviceId is %d, which is not set, expected aclrtSetDevice before", device);
  }
  devices[device].count = force ? 0 : devices[device].count - 1;
  context *gone = NULL;
  if (!devices[device].count) {
    gone = devices[device].primary;
    devices[device].primary = NULL;
  }
  INVARIANT(!devices[device].count == !devices[device].primary);
  mutex_unlock(&devices[device].lock);
  INVARIANT(!gone || (gone->primary && gone->device == device));
  if (gone && object_kill(&gone->o)) context_destroy(gone, force);
  return ST_OK;
}

bool device_has_primary(int device) {
  mutex_lock(&devices[device].lock);
  const bool has = devices[device].primary;
  mutex_unlock(&devices[device].lock);
  return has;
}

int device_default(void) { return atomic_load(&default_device); }
void device_set_default(int device) { atomic_store(&default_device, device); }

status device_take_stream(int device) {
  const uint32_t most = machine.profile->max_streams;
  if (atomic_fetch_add(&devices[device].n_streams, 1) < most) return ST_OK;
  atomic_fetch_sub(&devices[device].n_streams, 1);
  return fail(ST_NO_STREAMS, "device %d has %u streams, which is its limit", device, most);
}

void device_give_stream(int device) {
  const uint32_t before = atomic_fetch_sub(&devices[device].n_streams, 1);
  INVARIANT(before >= 1);
}

status device_take_event(int device) {
  enum { MOST = 65536 }; /* the limit of A2 and A3 in CANN's documentation */
  if (atomic_fetch_add(&devices[device].n_events, 1) < MOST) return ST_OK;
  atomic_fetch_sub(&devices[device].n_events, 1);
  return fail(ST_NO_EVENTS, "device %d has %d events, which is its limit", device, MOST);
}

void device_give_event(int device) {
  const uint32_t before = atomic_fetch_sub(&devices[device].n_events, 1);
  INVARIANT(before >= 1);
}

uint32_t device_stream_id(int device) { return atomic_fetch_add(&devices[device].n_stream_ids, 1); }
