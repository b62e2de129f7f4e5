/* SPDX-License-Identifier: Apache-2.0 */
/* cannon run: runs a program in the right environment, and reports what it did. */
#include "base/settings/dry_options.h"
#include "base/settings/dry_values.h"
#include "base/settings/fault_specs.h"
#include "base/settings/variables.h"
#include "check/check.h"
#include "check/leaks/leaks_options.h"
#include "cli/check/check_run.h"
#include "cli/check/faults_help.h"
#include "cli/check/lines.h"
#include "cli/commands.h"
#include "cli/environment.h"
#include "cli/figures.h"
#include "cli/output.h"
#include "cli/report/stats_folder.h"
#include "cli/report/summary.h"
#include "cli/spawn.h"
#include "comm/waits.h"
#include "runtime/dry/profile.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char help_head[] =
    "Usage: cannon run [OPTION]... [--] PROGRAM [ARGUMENT]...\n"
    "\n"
    "Runs a program on simulated devices, and reports what it did.\n"
    "\n"
    "PROGRAM may be built against CANN or against Cannon. It has the standard streams\n"
    "and receives the signals as if it was started directly. When it has ended, a\n"
    "summary is written to the standard error.\n"
    "\n"
    "Options:\n"
    "  --device NAME    SoC to simulate, with or without \"Ascend\"; `cannon info` lists\n"
    "                   them (default: " PROFILE_DEFAULT_SOC ")\n"
    "  --devices N      number of devices, 0 to 16 (default: 1)\n"
    "  --mem SIZE       memory of each device in bytes, such as 512M or 1.5G (K, M, G\n"
    "                   and T are powers of 1024), rounded down to whole pages of 2 MiB\n"
    "                   (default: the profile's memory, or what 80 % of the host's\n"
    "                   memory allows)\n"
    "  --dry            compute nothing and touch no device memory, but do all else: tells\n"
    "                   whether a program fits into the profile's memory, and how long\n"
    "                   its operators take at least. Results are 0\n"
    "  --real LIST      with --dry: compute these operators, separated by commas, such as\n"
    "                   aclnnArgMax,aclnnNonzero\n"
    "  --unknown SIZE   with --dry: the size of results that depends on data which was not\n"
    "                   computed: max (default), half of that, or a number of elements\n"
    "  --values FILE    with --dry: what copies to the host bring in place of 0, such as\n"
    "                   losses. Its lines: FILE:LINE or * of the program that copies, a\n"
    "                   type, values, such as: train.py:42 float32 0.9 0.7\n"
    "  --host-time TIME with --dry: what the host's time adds: none (default), measured (the\n"
    "                   time that the program takes without its waits), or the time of each\n"
    "                   task that it submits, such as 12.5us\n"
    "  --topology NAME  with --dry: how devices are connected, as of `cannon scale`\n"
    "                   (default: as those of the profile)\n"
    "  --sites          also count allocations by the source line that made them\n"
    "  --leaks[=LIST]   track every block: report the live ones at the end and on a\n"
    "                   signal, and name the place of the first free in the message of\n"
    "                   a second one. LIST has these items, separated by commas:\n"
    "                     report=PATH  file of the report; %p is the process number\n"
    "                                  (default: cannon-leaks.%p.txt)\n"
    "                     signal=NAME  signal at which a report is written: USR1, USR2,\n"
    "                                  HUP, WINCH, IO, URG, PWR or none (default: USR2)\n"
    "                     max=BLOCKS   number of live blocks at which to warn\n"
    "                                  (default: no limit)\n"
    "                     frames=N     stack frames recorded per block, 1 to 8\n"
    "                                  (default: 8)\n" CHECK_RUN_HELP
    "  --alarm PERCENT  use of a device's memory from which on the log and the summary\n"
    "                   warn, 0 to 100 percent (default: 85; 0: never)\n"
    "  --json FILE      write all statistics to FILE in JSON\n"
    "  --record FILE    write every allocation, every free, and every operation of a\n"
    "                   stream or event to FILE, for `cannon replay` and `cannon plan`;\n"
    "                   a second process that uses devices writes to FILE.PID\n"
    "  --fail SPEC[,SPEC...]\n"
    "                   make calls fail. SPEC is PLACE:N (the Nth in each process, from\n"
    "                   1), PLACE:N+ (that and all later ones) or PLACE:p=P[,seed=S]\n"
    "                   (each with probability P; the same S gives the same failures).\n"
    "                   May be repeated. PLACE:NAME:... counts the operator NAME only,\n"
    "                   for the places with NAME:\n";
static const char help_tail[] = "  --schedule random:SEED\n"
                                "                   run tasks of streams in another legal order, which SEED chooses\n"
                                "                   (1 or more): missing synchronisation shows\n"
                                "  --force          let --json, --record, --report and --leaks=report=PATH replace\n"
                                "                   files that cannon did not write\n"
                                "  --quiet          print no summary\n"
                                "  -h, --help       print this help and exit\n"
                                "\n"
                                "Exit status:\n"
                                "  That of PROGRAM. If PROGRAM is ended by a signal, cannon is ended by the same\n"
                                "  signal, which shells show as 128 + its number. With --error-exitcode N and\n"
                                "  findings of --check it is N.\n"
                                "  1    the folder for the statistics cannot be created\n"
                                "  2    the command line or an environment variable is wrong; nothing was run\n"
                                "  126  PROGRAM cannot be started\n"
                                "  127  PROGRAM was not found\n"
                                "\n"
                                "Examples:\n"
                                "  cannon run ./add\n"
                                "  cannon run --devices 8 --mem 32G --json stats.json python3 train.py\n"
                                "  cannon run --sites --leaks=max=1000 ./server\n"
                                "  cannon run --check --error-exitcode 9 --report check.html ./train\n"
                                "  cannon run --fail alloc:3 --fail op:Add:p=0.01,seed=7 ./train\n";

typedef struct {
  const char *value[N_VARIABLES]; /* values of variables in the program's environment; NULL: not set here */
  char mem[24];                   /* storage of value[VARIABLE_MEM] */
  char fail[4096];                /* of value[VARIABLE_FAIL] */
  const char *real, *unknown, *host, *topology, *values;                       /* of a dry run */
  char dry[DRY_OPTIONS_REAL + DRY_OPTIONS_TOPOLOGY + DRY_OPTIONS_VALUES + 80]; /* storage of value[VARIABLE_DRY] */
  output json, record, report; /* report: of the memory debugger, if all processes share one file */
  char values_path[PATH_MAX];  /* absolute, as the following one */
  char record_path[PATH_MAX];  /* absolute, since the program may change its working folder */
  char report_path[sizeof((leaks_options *)0)->report];
  bool force, quiet, help_wanted;
  char *const *program;
  char prefix[PATH_MAX];
  stats_folder folder;
  check_run check;
} run_options;

static int bad_device(const char *name) {
  bad_option("run", "--device", name, "one of");
  for (unsigned i = 0; i < profile_count(); i++) fprintf(stderr, "  %s\n", profile_at(i)->soc_name);
  return EXIT_USAGE;
}

/* Returns whether the memory debugger accepts the list; otherwise `bad` receives its first wrong element. */
static bool check_leaks(const char *how, leaks_options *checked, char bad[LEAKS_OPTIONS_BAD]) {
  return strcmp(how, "0") == 0 || leaks_options_parse(how, checked, bad);
}

static int parse_leaks(const char *how, run_options *o) {
  leaks_options checked = {0};
  char bad[LEAKS_OPTIONS_BAD];
  o->value[VARIABLE_LEAKS] = how && *how ? how : "1";
  if (!check_leaks(o->value[VARIABLE_LEAKS], &checked, bad))
    return bad_option("run", "--leaks", bad, variable_expected(VARIABLE_LEAKS).text);
  memcpy(o->report_path, checked.report, sizeof o->report_path);
  o->report.path = !*o->report_path || strstr(o->report_path, "%p") ? NULL : o->report_path;
  return 0;
}

/* Parses an option that sets the variable of the same name and takes the same values. */
static int parse_value(const char *option, const char *text, variable v, run_options *o, uint64_t *value) {
  variable_words words;
  o->value[v] = text;
  if (variable_parse(v, option, text, value, &words)) return 0;
  fprintf(stderr, "cannon run: %s\n", words.text);
  return EXIT_USAGE;
}

/* Adds the specifications of one --fail to those before it. */
static int parse_fail(const char *text, run_options *o) {
  fault_list list;
  char bad[FAULT_BAD_BYTES];
  const size_t used = strlen(o->fail);
  if (!*text) return bad_option("run", "--fail", text, variable_expected(VARIABLE_FAIL).text);
  if (!fault_parse(text, &list, bad)) return bad_option("run", "--fail", bad, variable_expected(VARIABLE_FAIL).text);
  const int n = snprintf(o->fail + used, sizeof o->fail - used, "%s%s", used ? ";" : "", text);
  if (n >= (int)(sizeof o->fail - used) || !fault_parse(o->fail, &list, bad))
    return bad_option("run", "--fail", text, "at most 64 specifications in all, and \"count\" alone");
  o->value[VARIABLE_FAIL] = o->fail;
  return 0;
}

/* Parses --schedule. */
static int parse_schedule(const char *text, run_options *o) {
  static const char kind[] = "random:";
  uint64_t seed;
  variable_words words;
  const char *number = strncmp(text, kind, sizeof kind - 1) == 0 ? text + sizeof kind - 1 : "";
  if (!variable_parse(VARIABLE_SCHEDULE_SEED, "--schedule", number, &seed, &words) || !seed)
    return bad_option("run", "--schedule", text, "random:SEED, where SEED is a number from 1 on");
  o->value[VARIABLE_SCHEDULE_SEED] = number;
  return 0;
}

/* Parses --mem. Devices have whole pages. */
static int parse_mem(const char *text, run_options *o) {
  enum { PAGE_BYTES = 2 << 20 };
  uint64_t bytes;
  if (parse_value("--mem", text, VARIABLE_MEM, o, &bytes)) return EXIT_USAGE;
  snprintf(o->mem, sizeof o->mem, "%" PRIu64, bytes / PAGE_BYTES * PAGE_BYTES);
  o->value[VARIABLE_MEM] = o->mem;
  if (bytes % PAGE_BYTES)
    fprintf(stderr, "cannon run: --mem is %s; using %" PRIu64 "M, whole pages of 2 MiB\n", text,
            bytes / PAGE_BYTES * PAGE_BYTES >> 20);
  return 0;
}

static int refuse_dry_options(const run_options *o) {
  const struct {
    const char *option, *value;
  } given[] = {{"--real", o->real},
               {"--unknown", o->unknown},
               {"--host-time", o->host},
               {"--topology", o->topology},
               {"--values", o->values}};
  for (size_t i = 0; i < sizeof given / sizeof *given; i++)
    if (given[i].value) return bad_option("run", given[i].option, given[i].value, "only with --dry");
  return 0;
}

/* Finds the file of --values, and complains of what is wrong in it. Returns 0 or an exit status. */
static int check_values(run_options *o) {
  static dry_values values;
  char bad[DRY_VALUES_BAD];
  if (!o->values) return 0;
  const bool is_right = dry_values_read(o->values, &values, bad);
  if (!is_right || !realpath(o->values, o->values_path)) {
    fprintf(stderr, "cannon run: --values is '%s': %s\n", o->values, is_right ? strerror(errno) : bad);
    return EXIT_USAGE;
  }
  o->values = o->values_path;
  return strchr(o->values, ',') ? bad_option("run", "--values", o->values, "a path without a comma") : 0;
}

/* Makes the variable's list of --dry and the options that belong to it. Returns 0 or an exit status. */
static int make_dry(run_options *o) {
  dry_options checked;
  char bad[DRY_OPTIONS_BAD];
  size_t n = 0;
  if (!o->value[VARIABLE_DRY]) return refuse_dry_options(o);
  if (!o->real && !o->unknown && !o->host && !o->topology && !o->values) return 0;
  if (check_values(o)) return EXIT_USAGE;
  const struct {
    const char *option, *value;
    size_t room;
  } texts[] = {{"--unknown", o->unknown, 24},
               {"--host-time", o->host, 24},
               {"--topology", o->topology, DRY_OPTIONS_TOPOLOGY},
               {"--values", o->values, DRY_OPTIONS_VALUES}};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    if (texts[i].value && strlen(texts[i].value) >= texts[i].room)
      return bad_option("run", texts[i].option, texts[i].value, "a shorter text");
  if (o->unknown) n = (size_t)snprintf(o->dry, sizeof o->dry, "unknown=%s,", o->unknown);
  if (o->host) n += (size_t)snprintf(o->dry + n, sizeof o->dry - n, "host=%s,", o->host);
  if (o->topology) n += (size_t)snprintf(o->dry + n, sizeof o->dry - n, "topology=%s,", o->topology);
  if (o->values) n += (size_t)snprintf(o->dry + n, sizeof o->dry - n, "values=%s,", o->values);
  for (const char *at = o->real; at && *at && n < sizeof o->dry;) {
    const size_t length = strcspn(at, ",");
    n += (size_t)snprintf(o->dry + n, sizeof o->dry - n, "real=%.*s,", (int)length, at);
    at += length + (at[length] == ',');
  }
  o->value[VARIABLE_DRY] = o->dry;
  if (n >= sizeof o->dry) return bad_option("run", "--real", o->real, "a shorter list");
  if (dry_options_parse(o->dry, &checked, bad)) return 0;
  return bad_option("run", "--dry", bad, variable_expected(VARIABLE_DRY).text);
}

/* Reports what the program would find wrong in its environment, before it runs. Returns 0 or an exit status. */
static int check_environment(const run_options *o) {
  const char *device = variable_text(VARIABLE_DEVICE), *leaks = variable_text(VARIABLE_LEAKS);
  const char *report = variable_text(VARIABLE_COMM_REPORT), *dry = variable_text(VARIABLE_DRY);
  leaks_options checked;
  const char *check = variable_text(VARIABLE_CHECK);
  unsigned parts;
  int signal;
  char bad[LEAKS_OPTIONS_BAD];
  uint64_t told = 0;
  if (device && !profile_find(device)) variable_reject(VARIABLE_DEVICE, device);
  fault_list faults;
  const char *fail = variable_text(VARIABLE_FAIL);
  if (fail && !fault_parse(fail, &faults, bad)) variable_reject(VARIABLE_FAIL, bad);
  if (leaks && !check_leaks(leaks, &checked, bad)) variable_reject(VARIABLE_LEAKS, bad);
  if (check && !check_parse(check, &parts, bad)) variable_reject(VARIABLE_CHECK, bad);
  dry_options dry_checked;
  char dry_bad[DRY_OPTIONS_BAD];
  if (dry && !dry_options_parse(dry, &dry_checked, dry_bad)) variable_reject(VARIABLE_DRY, dry_bad);
  if (report && !waits_parse_report(report, &signal)) variable_reject(VARIABLE_COMM_REPORT, report);
  for (variable v = 0; v < N_VARIABLES; v++) {
    variable_words words;
    if (o->value[v] || v == VARIABLE_STATS_DIR || !variable_is_bad(v, &words)) continue;
    fprintf(stderr, "cannon run: %s\n", words.text);
    return EXIT_USAGE;
  }
  if (!variable_read(VARIABLE_CHECKED, &told) || !told) variables_report_unknown();
  return 0;
}

/* Checks the output files, once all options are known and before anything is changed. */
static bool run_check_outputs(run_options *o) {
  o->json = (output){"cannon run", o->json.path, OUTPUT_JSON, o->force, NULL};
  o->record = (output){"cannon run", o->record.path, OUTPUT_RECORDING, o->force, NULL};
  o->report = (output){"cannon run", o->report.path, OUTPUT_LEAKS, o->force, NULL};
  return output_check(&o->json) && output_check(&o->record) && output_check(&o->report);
}

/* Makes the recording's path absolute. */
static bool find_record_path(run_options *o) {
  char copy[PATH_MAX], name[PATH_MAX], folder[PATH_MAX];
  if (!o->record.path) return true;
  snprintf(copy, sizeof copy, "%s", o->record.path);
  snprintf(name, sizeof name, "%s", o->record.path);
  const bool good = realpath(dirname(copy), folder);
  if (good && snprintf(o->record_path, PATH_MAX, "%s/%s", folder, basename(name)) < PATH_MAX) {
    o->value[VARIABLE_RECORD] = o->record_path;
    return true;
  }
  fprintf(stderr, "cannon run: cannot write %s: %s\n", o->record.path, good ? strerror(ENAMETOOLONG) : strerror(errno));
  return false;
}

enum {
  DEVICE = 1,
  DEVICES,
  MEM,
  DRY,
  REAL,
  UNKNOWN,
  HOST_TIME,
  DRY_TOPOLOGY,
  DRY_VALUES,
  SITES,
  LEAKS,
  ALARM,
  JSON,
  RECORD,
  FAIL,
  SCHEDULE,
  FORCE,
  QUIET,
  HELP = 'h'
};
static const struct option run_long_options[] = {
    {"device", required_argument, NULL, DEVICE},
    {"devices", required_argument, NULL, DEVICES},
    {"mem", required_argument, NULL, MEM},
    {"sites", no_argument, NULL, SITES},
    {"leaks", optional_argument, NULL, LEAKS},
    {"alarm", required_argument, NULL, ALARM},
    {"json", required_argument, NULL, JSON},
    {"record", required_argument, NULL, RECORD},
    {"force", no_argument, NULL, FORCE},
    {"quiet", no_argument, NULL, QUIET},
    {"help", no_argument, NULL, HELP},
    {"fail", required_argument, NULL, FAIL},
    {"schedule", required_argument, NULL, SCHEDULE},
    {"dry", no_argument, NULL, DRY},
    {"real", required_argument, NULL, REAL},
    {"unknown", required_argument, NULL, UNKNOWN},
    {"values", required_argument, NULL, DRY_VALUES},
    {"host-time", required_argument, NULL, HOST_TIME},
    {"topology", required_argument, NULL, DRY_TOPOLOGY},
    CHECK_RUN_OPTIONS,
    {NULL, 0, NULL, 0},
};

/* Returns 0 or the exit status. */
static int run_parse(int argc, char **argv, run_options *o) {
  const device_profile *profile;
  uint64_t n;
  argv[0] = "cannon run"; /* getopt's messages begin with it */
  for (int option; (option = getopt_long(argc, argv, "+h", run_long_options, NULL)) != -1;) {
    switch (option) {
    case DEVICE:
      profile = profile_find(optarg);
      if (!profile) return bad_device(optarg);
      o->value[VARIABLE_DEVICE] = profile->soc_name;
      break;
    case DEVICES:
      if (parse_value("--devices", optarg, VARIABLE_DEVICES, o, &n)) return EXIT_USAGE;
      break;
    case MEM:
      if (parse_mem(optarg, o)) return EXIT_USAGE;
      break;
    case DRY: o->value[VARIABLE_DRY] = "1"; break;
    case REAL: o->real = optarg; break;
    case UNKNOWN: o->unknown = optarg; break;
    case HOST_TIME: o->host = optarg; break;
    case DRY_VALUES: o->values = optarg; break;
    case DRY_TOPOLOGY: o->topology = optarg; break;
    case SITES: o->value[VARIABLE_SITES] = "1"; break;
    case LEAKS:
      if (parse_leaks(optarg, o)) return EXIT_USAGE;
      break;
    case ALARM:
      if (parse_value("--alarm", optarg, VARIABLE_ALARM, o, &n)) return EXIT_USAGE;
      break;
    case JSON: o->json.path = optarg; break;
    case RECORD: o->record.path = optarg; break;
    case FAIL:
      if (parse_fail(optarg, o)) return EXIT_USAGE;
      break;
    case SCHEDULE:
      if (parse_schedule(optarg, o)) return EXIT_USAGE;
      break;
    case FORCE: o->force = true; break;
    case QUIET: o->quiet = true; break;
    case HELP: o->help_wanted = true; return 0;
    default:
      if (check_run_take(option, optarg, &o->check)) return EXIT_USAGE;
    }
  }
  o->program = argv + optind;
  if (!*o->program) {
    fprintf(stderr, "cannon run: no program given, expected cannon run [OPTIONS] PROGRAM [ARGUMENTS]\n");
    return EXIT_USAGE;
  }
  const int dry = make_dry(o);
  if (dry) return dry;
  return run_check_outputs(o) && find_record_path(o) && !check_run_ready(&o->check, o->force) ? 0 : EXIT_USAGE;
}

/* Sets the program's environment in the child, before the program starts. Variables that were not set here keep the
 * caller's values. */
static void run_prepare(void *context) {
  const run_options *o = context;
  for (variable v = 0; v < N_VARIABLES; v++)
    if (o->value[v]) setenv(variable_name(v), o->value[v], 1);
  check_run_prepare(&o->check, o->folder.path);
}

static uint64_t run_clock_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + now.tv_nsec;
}

/* Adds source lines to the reports that the memory debugger wrote to files; reports on a terminal or a pipe are left
 * as they are. */
static void resolve_reports(const stats_list *stats) {
  for (size_t i = 0; i < stats->count; i++) {
    struct stat s;
    output lines = {"cannon run", stats->process[i]->leak_report, OUTPUT_LEAKS, false, NULL};
    const int fd = open(lines.path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    const bool is_file = fd >= 0 && fstat(fd, &s) == 0 && S_ISREG(s.st_mode);
    FILE *from = is_file ? fdopen(fd, "r") : NULL, *to = from ? output_begin(&lines) : NULL;
    if (to) {
      lines_copy_report(from, to);
      output_end(&lines, to, !ferror(from));
    }
    if (from)
      fclose(from);
    else if (fd >= 0)
      close(fd);
  }
}

static void run_report_results(run_options *o, run_report *run) {
  run->stats = *o->folder.path ? stats_read_folder(o->folder.path) : (stats_list){.n_unreadable = 1};
  resolve_reports(&run->stats);
  check_run_finish(&o->check, o->folder.path, o->prefix, run->argv, o->quiet);
  run->check = o->check.report;
  if (!o->quiet) summary_print(stderr, run);
  FILE *json = o->json.path ? output_begin(&o->json) : NULL;
  if (json) output_end(&o->json, json, summary_write_json(json, run) == 0);
  stats_list_free(&run->stats);
}

/* Returns the exit status for a program that cannot be started. */
static int not_started(const run_options *o, int error) {
  fprintf(stderr, "cannon run: %s: %s\n", format_text(o->program[0]), strerror(error));
  return error == ENOENT ? 127 : 126;
}

int command_run(int argc, char **argv) {
  run_options o = {0};
  int status = run_parse(argc, argv, &o);
  if (status) return status;
  if (o.help_wanted) {
    fputs(help_head, stdout);
    faults_help(stdout);
    fputs(help_tail, stdout);
    return 0;
  }
  status = check_environment(&o);
  if (status) return status;
  environment_prefix(o.prefix);
  environment_apply(o.prefix); /* the program is looked up in the environment that it will have */
  const int missing = spawn_check(o.program[0]);
  if (missing) return not_started(&o, missing);
  if (!stats_folder_make(&o.folder)) return 1;
  if (!output_move_away(&o.record) || !output_move_away(&o.report)) {
    output_settle(&o.record);
    stats_folder_remove(&o.folder);
    return EXIT_USAGE;
  }
  o.value[VARIABLE_STATS_DIR] = o.folder.path;
  o.value[VARIABLE_CHECKED] = "1";

  uint64_t started = run_clock_ns();
  spawn_result child = spawn_and_wait(o.program, run_prepare, &o);
  run_report run = {.argv = o.program, .pid = child.pid, .status = child.status, .wall_ns = run_clock_ns() - started};
  if (!child.error) run_report_results(&o, &run);
  stats_folder_remove(&o.folder);
  output_settle(&o.record);
  output_settle(&o.report);
  if (child.error) return not_started(&o, child.error);
  if (check_run_failed(&o.check)) return o.check.exitcode;
  spawn_end_like(child.status);
}
