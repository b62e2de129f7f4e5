/* SPDX-License-Identifier: Apache-2.0 */
/* cannon top: shows what a running program does, from the statistics that it keeps. */
#include "cli/commands.h"
#include "cli/figures.h"
#include "cli/report/live.h"
#include "cli/report/summary.h"
#include "cli/report/waits_list.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char help[] = "Usage: cannon top [OPTION]... [PID]\n"
                           "\n"
                           "Shows the memory, copies, operators and communication of a running program.\n"
                           "\n"
                           "The output is repeated until the program ends. Without PID, there is one line for\n"
                           "each program that uses a device. Of a program that was not started by `cannon run`,\n"
                           "nor with CANNON_STATS_DIR set to a folder, only the memory that it has taken is\n"
                           "known. Ranks of communicators that wait for others are listed of all programs.\n"
                           "\n"
                           "Options:\n"
                           "  --once              print once and exit\n"
                           "  --interval SECONDS  time between outputs, 0.1 to 3600 seconds (default: 1)\n"
                           "  -h, --help          print this help and exit\n"
                           "\n"
                           "Exit status:\n"
                           "  0  success\n"
                           "  1  there is no such program\n"
                           "  2  the command line is wrong; nothing was done\n"
                           "\n"
                           "Examples:\n"
                           "  cannon top\n"
                           "  cannon top --interval 5 1234\n";

typedef struct {
  bool once, help_wanted;
  double interval;
  pid_t pid; /* 0: all processes */
} top_options;

static int top_parse(int argc, char **argv, top_options *o) {
  enum { ONCE = 1, INTERVAL, HELP = 'h' };
  static const struct option options[] = {{"once", no_argument, NULL, ONCE},
                                          {"interval", required_argument, NULL, INTERVAL},
                                          {"help", no_argument, NULL, HELP},
                                          {NULL, 0, NULL, 0}};
  char *end;
  argv[0] = "cannon top";
  o->interval = 1;
  for (int option; (option = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
    switch (option) {
    case ONCE: o->once = true; break;
    case INTERVAL:
      o->interval = strtod(optarg, &end);
      if (end != optarg && !*end && o->interval >= 0.1 && o->interval <= 3600) break;
      return bad_option("top", "--interval", optarg, "seconds from 0.1 to 3600");
    case HELP: o->help_wanted = true; return 0;
    default: return EXIT_USAGE;
    }
  }
  if (!argv[optind]) return 0;
  const long pid = strtol(argv[optind], &end, 10);
  o->pid = (pid_t)pid;
  if (end != argv[optind] && !*end && pid > 0 && pid <= INT32_MAX && !argv[optind + 1]) return 0;
  fprintf(stderr, "cannon top: unexpected argument '%s', expected one process number\n",
          argv[argv[optind + 1] ? optind + 1 : optind]);
  return EXIT_USAGE;
}

/* Prints the changes between two readings as rates per second. */
static void print_rates(const stats_file *before, const stats_file *now, double seconds) {
  uint64_t allocs = 0, launches = 0, copied = 0, busy_ns = 0;
  for (int i = 0; i < STATS_MAX_DEVICES; i++) allocs += now->device[i].n_allocs - before->device[i].n_allocs;
  for (int i = 0; i < STATS_N_DIRECTIONS; i++) copied += now->copies[i].bytes - before->copies[i].bytes;
  for (unsigned i = 0; i < stats_op_count(now); i++) {
    launches += now->ops[i].launches - before->ops[i].launches;
    busy_ns += now->ops[i].time_ns - before->ops[i].time_ns;
  }
  printf("now: %.0f allocations/s, %.0f operators/s (%.0f %% of a core), %s copied\n", (double)allocs / seconds,
         (double)launches / seconds, (double)busy_ns * 1e-7 / seconds,
         format_rate((uint64_t)((double)copied / seconds)));
}

static void wait_seconds(double seconds) {
  struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
  nanosleep(&t, NULL);
}

/* Prints the memory charged by a process that keeps no statistics. Returns the exit status. */
static int print_charge(pid_t pid) {
  charge_list charges = charges_read();
  stats_list list = live_list(&charges);
  const stats_file *p = NULL;
  for (size_t i = 0; i < list.count && !p; i++)
    if (list.process[i]->pid == pid && !live_is_counted(list.process[i])) p = list.process[i];
  if (p) {
    printf("%s (process %d)\n", p->program, (int)pid);
    for (unsigned d = 0; d < stats_device_count(p); d++)
      if (p->device[d].committed_bytes)
        printf("  memory      device %u  committed %s\n", d, format_bytes(p->device[d].committed_bytes));
    printf("  Nothing else is counted: start the program by cannon run, or with CANNON_STATS_DIR set to a folder.\n");
    waits_list_print(stdout, &charges, pid);
  } else {
    fprintf(stderr, "cannon top: process %d is not running, is not yours, or uses no device\n", (int)pid);
  }
  stats_list_free(&list);
  charges_free(&charges);
  return p ? 0 : 1;
}

static int watch(const top_options *o) {
  const int fd = live_open(o->pid);
  if (fd < 0) return print_charge(o->pid);
  char name[32];
  snprintf(name, sizeof name, "the file of process %d", (int)o->pid);
  stats_file *before = NULL, *now = stats_read(fd, name);
  process_state state = PROCESS_ENDED;
  const bool terminal = isatty(STDOUT_FILENO);
  const int status = now ? 0 : 1;
  while (now) {
    state = stats_process_state(now, 0);
    if (terminal && !o->once) fputs("\033[H\033[2J", stdout); /* cursor home, clear screen */
    summary_print_process(stdout, now, state);
    charge_list charges = charges_read();
    waits_list_print(stdout, &charges, now->pid);
    charges_free(&charges);
    if (before) print_rates(before, now, o->interval);
    if (fflush(stdout) || o->once || state != PROCESS_RUNNING) break;
    free(before);
    before = now;
    wait_seconds(o->interval);
    now = stats_read(fd, name);
    if (!terminal) putchar('\n');
  }
  free(before);
  free(now);
  close(fd);
  return status;
}

static void print_all(void) {
  charge_list charges = charges_read();
  stats_list list = live_list(&charges);
  printf("%8s  %10s  %10s  %10s  %s\n", "PID", "live", "committed", "launches", "PROGRAM");
  for (size_t i = 0; i < list.count; i++) {
    const stats_file *p = list.process[i];
    uint64_t live = 0, committed = 0, launches = 0;
    for (unsigned d = 0; d < STATS_MAX_DEVICES; d++) {
      live += p->device[d].live_bytes;
      committed += p->device[d].committed_bytes;
    }
    for (unsigned op = 0; op < stats_op_count(p); op++) launches += p->ops[op].launches;
    if (live_is_counted(p))
      printf("%8d  %10s  %10s  %10" PRIu64 "  %s\n", p->pid, format_bytes(live), format_bytes(committed), launches,
             p->program);
    else
      printf("%8d  %10s  %10s  %10s  %s\n", p->pid, "-", format_bytes(committed), "-", p->program);
  }
  waits_list_print(stdout, &charges, 0);
  stats_list_free(&list);
  charges_free(&charges);
}

int command_top(int argc, char **argv) {
  top_options o = {0};
  const int status = top_parse(argc, argv, &o);
  if (status) return status;
  if (o.help_wanted) {
    fputs(help, stdout);
    return 0;
  }
  if (o.pid) return watch(&o);
  for (;;) {
    const bool terminal = isatty(STDOUT_FILENO);
    if (terminal && !o.once) fputs("\033[H\033[2J", stdout);
    print_all();
    if (fflush(stdout) || o.once) return 0;
    wait_seconds(o.interval);
  }
}
