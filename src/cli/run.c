/* cannon run: a program in the right environment, and what it did. */
#include "cli/commands.h"
#include "cli/environment.h"
#include "cli/size.h"
#include "cli/spawn.h"
#include "cli/summary.h"
#include "runtime/profile.h"

#include <dirent.h>
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
  bool quiet, help_wanted;
  char *const *program;
  char prefix[PATH_MAX], stats_folder[PATH_MAX];
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
  enum { DEVICE = 1, DEVICES, MEM, JSON, RECORD, QUIET, HELP };
  static const struct option options[] = {
      {"device", required_argument, NULL, DEVICE}, {"devices", required_argument, NULL, DEVICES},
      {"mem", required_argument, NULL, MEM},       {"json", required_argument, NULL, JSON},
      {"record", required_argument, NULL, RECORD}, {"quiet", no_argument, NULL, QUIET},
      {"help", no_argument, NULL, HELP},           {NULL, 0, NULL, 0},
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
  setenv("CANNON_STATS_DIR", o->stats_folder, 1);
  if (o->profile) setenv("CANNON_DEVICE", o->profile->soc_name, 1);
  if (o->n_devices) set_number("CANNON_DEVICES", o->n_devices);
  if (o->mem_bytes) set_number("CANNON_MEM", o->mem_bytes);
  if (o->record_path[0]) setenv("CANNON_RECORD", o->record_path, 1);
}

static bool make_stats_folder(char folder[PATH_MAX]) {
  const char *base = getenv("TMPDIR");
  snprintf(folder, PATH_MAX, "%s/cannon-XXXXXX", base && *base ? base : "/tmp");
  if (mkdtemp(folder)) return true;
  fprintf(stderr, "cannon run: cannot make a folder %s: %s\n", folder, strerror(errno));
  return false;
}

/* It holds files only. */
static void remove_stats_folder(const char *folder) {
  DIR *dir = opendir(folder);
  for (struct dirent *entry; dir && (entry = readdir(dir));) unlinkat(dirfd(dir), entry->d_name, 0);
  if (dir) closedir(dir);
  if (rmdir(folder)) fprintf(stderr, "cannon run: cannot remove %s: %s\n", folder, strerror(errno));
}

static uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + now.tv_nsec;
}

static void report(const run_options *o, run_report *run) {
  run->stats = stats_read_folder(o->stats_folder);
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
  if (!make_stats_folder(o.stats_folder)) return 1;

  uint64_t started = now_ns();
  spawn_result child = spawn_and_wait(o.program, prepare, &o);
  run_report run = {.argv = o.program, .pid = child.pid, .status = child.status, .wall_ns = now_ns() - started};
  if (!child.error) report(&o, &run);
  remove_stats_folder(o.stats_folder);
  if (child.error) {
    fprintf(stderr, "cannon run: %s: %s\n", o.program[0], strerror(child.error));
    return child.error == ENOENT ? 127 : 126;
  }
  spawn_end_like(child.status);
}
