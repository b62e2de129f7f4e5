/* cannon run: a program in the right environment, and what it did. */
#include "base/variables.h"
#include "check/leaks_options.h"
#include "cli/commands.h"
#include "cli/environment.h"
#include "cli/lines.h"
#include "cli/spawn.h"
#include "cli/stats_folder.h"
#include "cli/summary.h"
#include "runtime/profile.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char help[] =
    "Usage: cannon run [OPTIONS] [--] PROGRAM [ARGUMENTS]\n\n"
    "Runs PROGRAM, which may be built against CANN or against Cannon, on simulated devices. It keeps its "
    "standard\n"
    "streams and its signals; when it is over, a summary of what it did goes to stderr.\n\n"
    "  --device NAME    SoC to simulate, with or without \"Ascend\" (cannon info lists them; "
    "default " PROFILE_DEFAULT_SOC ")\n"
    "  --devices N      number of devices, 0 to 16 (default 1)\n"
    "  --mem SIZE       memory of each device, such as 512M or 1.5G: K, M, G, T are powers of 1024, and devices have\n"
    "                   whole pages of 2 MiB (default: the profile's, or what 80 % of this machine's memory allows)\n"
    "  --sites          also count allocations by the line of the program that made them\n"
    "  --leaks[=HOW]    remember every block: a report of those that are live, at the end and on a signal, and the\n"
    "                   site of the first free in the message of a second one. HOW is a list with commas between:\n"
    "                   report=PATH (default cannon-leaks.%p.txt, %p is the process), signal=NAME (default USR2),\n"
    "                   max=BLOCKS (warn at that many live ones), frames=N (of each stack, default 8)\n"
    "  --alarm PERCENT  of a device's memory in use, from which on the log and the summary say so (default 85,\n"
    "                   0: never)\n"
    "  --json FILE      write everything that was counted to FILE\n"
    "  --record FILE    write every allocation, free and step of a stream or event to FILE, for cannon replay; a "
    "second\n"
    "                   process that uses devices writes to FILE.PID\n"
    "  --quiet          no summary\n"
    "  --help           this text\n\n"
    "Exit status: PROGRAM's; after a signal cannon ends by the same signal, which shells show as 128 + its "
    "number.\n"
    "127: PROGRAM was not found; 126: it could not be started; 2: wrong options, nothing was run.\n";

typedef struct {
  const char *value[N_VARIABLES]; /* of the program's environment; NULL: not chosen here */
  char mem[24];                   /* what value[VARIABLE_MEM] points to */
  const char *json_path;
  char record_path[PATH_MAX]; /* absolute */
  FILE *json;
  bool quiet, help_wanted;
  char *const *program;
  char prefix[PATH_MAX];
  stats_folder folder;
} run_options;

static int bad_option(const char *option, const char *value, const char *expected) {
  fprintf(stderr, "cannon run: %s is '%s', expected %s\n", option, value, expected);
  return EXIT_USAGE;
}

static int bad_device(const char *name) {
  bad_option("--device", name, "one of");
  for (unsigned i = 0; i < profile_count(); i++) fprintf(stderr, "  %s\n", profile_at(i)->soc_name);
  return EXIT_USAGE;
}

/* Whether the memory debugger takes the list; else `bad` is its first wrong part. */
static bool check_leaks(const char *how, char bad[LEAKS_OPTIONS_BAD]) {
  leaks_options checked;
  return strcmp(how, "0") == 0 || leaks_options_parse(how, &checked, bad);
}

static int parse_leaks(const char *how, run_options *o) {
  char bad[LEAKS_OPTIONS_BAD];
  o->value[VARIABLE_LEAKS] = how && *how ? how : "1";
  if (check_leaks(o->value[VARIABLE_LEAKS], bad)) return 0;
  return bad_option("--leaks", bad, variable_expected(VARIABLE_LEAKS).text);
}

/* An option that is the variable of that name, and takes what that takes. */
static int parse_value(const char *option, const char *text, variable v, run_options *o, uint64_t *value) {
  variable_words words;
  o->value[v] = text;
  if (variable_parse(v, option, text, value, &words)) return 0;
  fprintf(stderr, "cannon run: %s\n", words.text);
  return EXIT_USAGE;
}

/* Devices have whole pages. */
static int parse_mem(const char *text, run_options *o) {
  enum { PAGE_BYTES = 2 << 20 };
  uint64_t bytes;
  if (parse_value("--mem", text, VARIABLE_MEM, o, &bytes)) return EXIT_USAGE;
  snprintf(o->mem, sizeof o->mem, "%" PRIu64, bytes / PAGE_BYTES * PAGE_BYTES);
  o->value[VARIABLE_MEM] = o->mem;
  if (bytes % PAGE_BYTES)
    fprintf(stderr, "cannon run: --mem is %s; taking %" PRIu64 "M, whole pages of 2 MiB\n", text,
            bytes / PAGE_BYTES * PAGE_BYTES >> 20);
  return 0;
}

/* What the program would find wrong, before it runs: an exit status. */
static int check_environment(const run_options *o) {
  const char *device = variable_text(VARIABLE_DEVICE), *leaks = variable_text(VARIABLE_LEAKS);
  char bad[LEAKS_OPTIONS_BAD];
  uint64_t told = 0;
  if (device && !profile_find(device)) variable_reject(VARIABLE_DEVICE, device);
  if (leaks && !check_leaks(leaks, bad)) variable_reject(VARIABLE_LEAKS, bad);
  for (variable v = 0; v < N_VARIABLES; v++) {
    variable_words words;
    if (o->value[v] || v == VARIABLE_STATS_DIR || !variable_is_bad(v, &words)) continue;
    fprintf(stderr, "cannon run: %s\n", words.text);
    return EXIT_USAGE;
  }
  if (!variable_read(VARIABLE_CHECKED, &told) || !told) variables_report_unknown();
  return 0;
}

/* Makes room for the recording: the program must find no file there, and the folder must allow one, which is found out
 * before anything runs. The path becomes absolute, since the program may change its folder. */
static bool prepare_record(const char *name, char path[PATH_MAX]) {
  struct stat is;
  const int fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  const bool is_file = fd >= 0 && fstat(fd, &is) == 0 && S_ISREG(is.st_mode);
  const bool good = is_file && realpath(name, path) && unlink(path) == 0;
  if (!good)
    fprintf(stderr, "cannon run: cannot write %s: %s\n", name, fd >= 0 && !is_file ? "no file" : strerror(errno));
  if (fd >= 0) close(fd);
  return good;
}

/* Returns 0 or the exit status. */
static int parse(int argc, char **argv, run_options *o) {
  enum { DEVICE = 1, DEVICES, MEM, SITES, LEAKS, ALARM, JSON, RECORD, QUIET, HELP };
  static const struct option options[] = {
      {"device", required_argument, NULL, DEVICE},
      {"devices", required_argument, NULL, DEVICES},
      {"mem", required_argument, NULL, MEM},
      {"sites", no_argument, NULL, SITES},
      {"leaks", optional_argument, NULL, LEAKS},
      {"alarm", required_argument, NULL, ALARM},
      {"json", required_argument, NULL, JSON},
      {"record", required_argument, NULL, RECORD},
      {"quiet", no_argument, NULL, QUIET},
      {"help", no_argument, NULL, HELP},
      {NULL, 0, NULL, 0},
  };
  const device_profile *profile;
  uint64_t n;
  argv[0] = "cannon run"; /* getopt's messages begin with it */
  for (int option; (option = getopt_long(argc, argv, "+", options, NULL)) != -1;) {
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
    case SITES: o->value[VARIABLE_SITES] = "1"; break;
    case LEAKS:
      if (parse_leaks(optarg, o)) return EXIT_USAGE;
      break;
    case ALARM:
      if (parse_value("--alarm", optarg, VARIABLE_ALARM, o, &n)) return EXIT_USAGE;
      break;
    case JSON: o->json_path = optarg; break;
    case RECORD:
      if (!prepare_record(optarg, o->record_path)) return EXIT_USAGE;
      o->value[VARIABLE_RECORD] = o->record_path;
      break;
    case QUIET: o->quiet = true; break;
    case HELP: o->help_wanted = true; return 0;
    default: return EXIT_USAGE; /* getopt has said why */
    }
  }
  o->program = argv + optind;
  if (!*o->program) {
    fprintf(stderr, "cannon run: no program given, expected cannon run [OPTIONS] PROGRAM [ARGUMENTS]\n");
    return EXIT_USAGE;
  }
  return 0;
}

/* In the child, before the program starts. What was not chosen here is left as the caller's environment has
 * it. */
static void prepare(void *context) {
  const run_options *o = context;
  environment_apply(o->prefix);
  for (variable v = 0; v < N_VARIABLES; v++)
    if (o->value[v]) setenv(variable_name(v), o->value[v], 1);
}

static uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + now.tv_nsec;
}

/* Puts source lines into the reports that the debugger wrote. */
static void resolve_reports(const stats_list *stats) {
  for (size_t i = 0; i < stats->count; i++) {
    const char *path = stats->process[i]->leak_report;
    char temporary[sizeof stats->process[i]->leak_report + 8];
    struct stat file;
    const bool regular = *path && stat(path, &file) == 0 && S_ISREG(file.st_mode); /* not a terminal, not a pipe */
    FILE *from = regular ? fopen(path, "re") : NULL;
    if (!from) continue;
    snprintf(temporary, sizeof temporary, "%s.lines", path);
    FILE *to = fopen(temporary, "we");
    if (to) lines_copy_report(from, to);
    fclose(from);
    if (to && (fclose(to) || rename(temporary, path)))
      fprintf(stderr, "cannon run: cannot put lines into %s: %s\n", path, strerror(errno));
  }
}

static void report(const run_options *o, run_report *run) {
  run->stats = stats_read_folder(o->folder.path);
  resolve_reports(&run->stats);
  if (!o->quiet) summary_print(stderr, run);
  if (o->json && (summary_write_json(o->json, run) || fclose(o->json)))
    fprintf(stderr, "cannon run: cannot write %s: %s\n", o->json_path, strerror(errno));
  stats_list_free(&run->stats);
}

int command_run(int argc, char **argv) {
  run_options o = {0};
  int status = parse(argc, argv, &o);
  if (status) return status;
  if (o.help_wanted) {
    fputs(help, stdout);
    return 0;
  }
  status = check_environment(&o);
  if (status) return status;
  /* Before the program runs, so that an hour's figures aren't lost to a misspelt folder. */
  if (o.json_path && !(o.json = fopen(o.json_path, "we"))) {
    fprintf(stderr, "cannon run: cannot write %s: %s\n", o.json_path, strerror(errno));
    return EXIT_USAGE;
  }
  environment_prefix(o.prefix);
  if (!stats_folder_make(&o.folder)) return 1;
  o.value[VARIABLE_STATS_DIR] = o.folder.path;
  o.value[VARIABLE_CHECKED] = "1";

  uint64_t started = now_ns();
  spawn_result child = spawn_and_wait(o.program, prepare, &o);
  run_report run = {.argv = o.program, .pid = child.pid, .status = child.status, .wall_ns = now_ns() - started};
  if (!child.error) report(&o, &run);
  stats_folder_remove(&o.folder);
  if (child.error) {
    fprintf(stderr, "cannon run: %s: %s\n", o.program[0], strerror(child.error));
    return child.error == ENOENT ? 127 : 126;
  }
  spawn_end_like(child.status);
}
