/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/profiler_folder.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "trace/timeline.h"

enum { FOLDER_MODE = 0750, FILE_MODE = 0640 }; /* torch_npu refuses files that other users may write to */

status profiler_make_folder(const char *path) {
  char part[PROFILER_FOLDER_BYTES + 32];
  if (snprintf(part, sizeof part, "%s", path) >= (int)sizeof part)
    return fail(ST_CONFIG_PATH, "%.64s... is too long for a path", path);
  for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = '\0';
    mkdir(part, FOLDER_MODE); /* a failure shows in the check below */
    *slash = '/';
  }
  if ((mkdir(part, FOLDER_MODE) && errno != EEXIST) || access(part, W_OK | X_OK))
    return fail(ST_CONFIG_PATH, "%s can't be written to: %s", path, strerror(errno));
  return ST_OK;
}

static status write_profile_text(const char *folder, const char *name, const char *text) {
  char path[PROFILER_FOLDER_BYTES + 32];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  const int fd = file_create(path, FILE_MODE);
  const bool good = fd >= 0 && file_write(fd, text, strlen(text));
  const int error = errno;
  if (fd >= 0) close(fd);
  return good ? ST_OK : fail(ST_CONFIG_PATH, "%s can't be written: %s", path, strerror(error));
}

static status write_info_json(const char *folder, const char *name, cJSON *json) {
  char *text = json ? cJSON_PrintUnformatted(json) : NULL;
  cJSON_Delete(json);
  if (!text) return fail(ST_NO_HOST_MEMORY, "no host memory for %s", name);
  const status st = write_profile_text(folder, name, text);
  free(text);
  return st;
}

/* The processor's counter of time, which MindSpore takes its own times from. */
static uint64_t counter_now(void) {
#if defined __x86_64__
  return __builtin_ia32_rdtsc();
#elif defined __aarch64__
  uint64_t count;
  __asm__ volatile("mrs %0, cntvct_el0" : "=r"(count));
  return count;
#else
  return timeline_now();
#endif
}

/* Writes one moment of the raw clock, in nanoseconds, and of the processor's counter: the first is the middle of two
 * readings around that of the second. */
static status write_counter(const char *host, const char *name) {
  char text[96];
  const uint64_t before = timeline_now();
  const uint64_t count = counter_now();
  const uint64_t after = timeline_now();
  snprintf(text, sizeof text, "[Host]\nclock_monotonic_raw = %ju\ncntvct = %ju\ncntvct_diff = 0\n",
           (uintmax_t)(before + (after - before) / 2), (uintmax_t)count);
  return write_profile_text(host, name, text);
}

/* Reads one moment from both clocks. The raw clock's value is the middle of two readings around the reading of the
 * day's clock, less the nanoseconds that *realtime_us drops. */
static void read_clocks(uint64_t *realtime_us, uint64_t *raw_ns) {
  struct timespec day;
  const uint64_t before = timeline_now();
  clock_gettime(CLOCK_REALTIME, &day);
  const uint64_t after = timeline_now();
  *realtime_us = (uint64_t)day.tv_sec * 1000000u + (uint64_t)day.tv_nsec / 1000;
  *raw_ns = before + (after - before) / 2 - (uint64_t)day.tv_nsec % 1000;
}

static status write_start(const char *host) {
  uint64_t realtime_us, raw_ns;
  char text[24];
  read_clocks(&realtime_us, &raw_ns);
  cJSON *json = cJSON_CreateObject();
  snprintf(text, sizeof text, "%ju", (uintmax_t)realtime_us);
  cJSON_AddStringToObject(json, "collectionTimeBegin", text);
  snprintf(text, sizeof text, "%ju", (uintmax_t)raw_ns);
  cJSON_AddStringToObject(json, "clockMonotonicRaw", text);
  TRY(write_counter(host, "host_start.log"));
  return write_info_json(host, "start_info", json);
}

static profiler_device device; /* zeros: not known */

void profiler_describe(const profiler_device *d) { device = *d; }

/* What msprof copies to device_N/info.json.N, as CANN has it: numbers of cores, and frequencies in MHz as texts. */
static void add_device(cJSON *json) {
  char mhz[24];
  if (!device.cube_cores) return;
  cJSON *list = cJSON_AddArrayToObject(json, "DeviceInfo"), *d = cJSON_CreateObject();
  snprintf(mhz, sizeof mhz, "%ju", (uintmax_t)(device.core_hz / 1000000));
  cJSON_AddNumberToObject(d, "ai_core_num", (double)device.cube_cores);
  cJSON_AddNumberToObject(d, "aiv_num", (double)device.vector_cores);
  cJSON_AddNumberToObject(d, "ai_cpu_core_num", (double)device.ai_cpus);
  cJSON_AddStringToObject(d, "aic_frequency", mhz);
  cJSON_AddStringToObject(d, "aiv_frequency", mhz);
  cJSON_AddItemToArray(list, d);
}

/* Clients look for the frequency, in MHz, of the counter that times are given in: here times are in nanoseconds. */
static status write_process(const char *host) {
  char name[64] = "", machine[HOST_NAME_MAX + 1] = "", pid[16];
  const int fd = open("/proc/self/comm", O_RDONLY | O_CLOEXEC);
  if (fd >= 0) {
    const ssize_t n = read(fd, name, sizeof name - 1);
    name[n > 0 ? n - 1 : 0] = '\0'; /* removes the newline */
    close(fd);
  }
  gethostname(machine, sizeof machine - 1);
  snprintf(pid, sizeof pid, "%d", (int)getpid());
  cJSON *json = cJSON_CreateObject(), *cpus = cJSON_AddArrayToObject(json, "CPU"), *cpu = cJSON_CreateObject();
  cJSON_AddStringToObject(cpu, "Frequency", "1000.0");
  cJSON_AddItemToArray(cpus, cpu);
  add_device(json);
  cJSON_AddStringToObject(json, "pid", pid);
  cJSON_AddStringToObject(json, "pid_name", name);
  cJSON_AddStringToObject(json, "hostname", machine);
  return write_info_json(host, "info.json", json);
}

static void session_name(char *name, size_t bytes) {
  enum { LETTERS = 17 };
  static _Atomic uint32_t n_sessions;
  unsigned char random[LETTERS];
  char letters[LETTERS + 1] = "";
  struct timespec now;
  struct tm local;
  clock_gettime(CLOCK_REALTIME, &now);
  localtime_r(&now.tv_sec, &local);
  if (getrandom(random, sizeof random, 0) != sizeof random) memset(random, 0, sizeof random);
  for (int i = 0; i < LETTERS; ++i) letters[i] = (char)('A' + random[i] % 26);
  snprintf(name, bytes, "PROF_%06u_%04d%02d%02d%02d%02d%02d%03ld_%s", atomic_fetch_add(&n_sessions, 1) + 1,
           (local.tm_year + 1900) % 10000, local.tm_mon + 1, local.tm_mday, local.tm_hour, local.tm_min, local.tm_sec,
           now.tv_nsec / 1000000, letters);
}

status profiler_make_session(const char *path, char folder[PROFILER_FOLDER_BYTES]) {
  char name[80], host[PROFILER_FOLDER_BYTES + 16], data[PROFILER_FOLDER_BYTES + 24];
  session_name(name, sizeof name);
  snprintf(folder, PROFILER_FOLDER_BYTES, "%s/%s", path, name);
  snprintf(host, sizeof host, "%s/host", folder);
  snprintf(data, sizeof data, "%s/data", host);
  TRY(profiler_make_folder(data));
  TRY(write_start(host));
  return write_process(host);
}

status profiler_end_session(const char *folder) {
  char host[PROFILER_FOLDER_BYTES + 16];
  snprintf(host, sizeof host, "%s/host", folder);
  return write_counter(host, "host_end.log");
}
