/* cannon run: a program in the right environment, and what it did. */
#include "base/size.h"
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
    "  --devices N      number of devices, 1 to 16 (default 1)\n"
    "  --mem SIZE       memory of each device; K, M, G, T are powers of 1024 (default: the profile's, or "
    "what 80 %\n"
    "                   of this machine's memory allows)\n"
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
  const device_profile *profile; /* NULL: not chosen here */
  uint64_t n_devices, mem_bytes; /* 0: not chosen here */
  const char *json_path;
  char record_path[PATH_MAX]; /* absolute; empty: none */
  FILE *json;
  const char *leaks; /* CANNON_LEAKS, or NULL */
  uint64_t alarm_percent;
  bool alarm, sites, quiet, help_wanted;
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

static int parse_leaks(const char *how, run_options *o) {
  leaks_options checked;
  char bad[LEAKS_OPTIONS_BAD];
  o->leaks = how && *how ? how : "1";
  return leaks_options_parse(o->leaks, &checked, bad) ? 0 : bad_option("--leaks", bad, LEAKS_OPTIONS_EXPECTED);
}

static int parse_alarm(const char *percent, run_options *o) {
  o->alarm = true;
  if (strcmp(percent, "0") == 0 || (size_parse(percent, &o->alarm_percent) && o->alarm_percent <= 100)) return 0;
  return bad_option("--alarm", percent, "a number from 0 to 100");
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
  argv[0] = "cannon run"; /* getopt's messages begin with it */
  for (int option; (option = getopt_long(argc, argv, "+", options, NULL)) != -1;) {
    switch (option) {
    case DEVICE:
      o->profile = profile_find(optarg);
      if (!o->profile) return bad_device(optarg);
      break;
    case DEVICES:
      if (!size_parse(optarg, &o->n_devices) || o->n_devices > STATS_MAX_DEVICES)
        return bad_option("--devices", optarg, "a number from 1 to 16");
      break;
    case MEM:
      if (!size_parse(optarg, &o->mem_bytes))
        return bad_option("--mem", optarg, "a size above 0 such as 512M or 32G (K, M, G or T)");
      break;
    case SITES: o->sites = true; break;
    case LEAKS:
      if (parse_leaks(optarg, o)) return EXIT_USAGE;
      break;
    case ALARM:
      if (parse_alarm(optarg, o)) return EXIT_USAGE;
      break;
    case JSON: o->json_path = optarg; break;
    case RECORD:
      if (!prepare_record(optarg, o->record_path)) return EXIT_USAGE;
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

static void set_number(const char *name, uint64_t number) {
  char text[24];
  snprintf(text, sizeof text, "%" PRIu64, number);
  setenv(name, text, 1);
}

/* In the child, before the program starts. What was not chosen here is left as the caller's environment has
 * it. */
static void prepare(void *context) {
  const run_options *o = context;
  environment_apply(o->prefix);
  setenv("CANNON_STATS_DIR", o->folder.path, 1);
  if (o->profile) setenv("CANNON_DEVICE", o->profile->soc_name, 1);
  if (o->n_devices) set_number("CANNON_DEVICES", o->n_devices);
  if (o->mem_bytes) set_number("CANNON_MEM", o->mem_bytes);
  if (o->alarm) set_number("CANNON_ALARM", o->alarm_percent);
  if (o->sites) setenv("CANNON_SITES", "1", 1);
  if (o->leaks) setenv("CANNON_LEAKS", o->leaks, 1);
  if (o->record_path[0]) setenv("CANNON_RECORD", o->record_path, 1);
}

static uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + now.tv_nsec;
}

/* Puts source lines into the reports that the debugger wrote. One behind a link stays as it is: the link would be
 * replaced, and /dev/stderr is one, also where that is a file. */
static void resolve_reports(const stats_list *stats) {
  for (size_t i = 0; i < stats->count; i++) {
    const char *path = stats->process[i]->leak_report;
    char temporary[sizeof stats->process[i]->leak_report + 8];
    struct stat file;
    const bool regular = *path && lstat(path, &file) == 0 && S_ISREG(file.st_mode); /* not a terminal, not a pipe */
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
  /* Before the program runs, so that an hour's figures aren't lost to a misspelt folder. */
  if (o.json_path && !(o.json = fopen(o.json_path, "we"))) {
    fprintf(stderr, "cannon run: cannot write %s: %s\n", o.json_path, strerror(errno));
    return EXIT_USAGE;
  }
  environment_prefix(o.prefix);
  if (!stats_folder_make(&o.folder)) return 1;

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
