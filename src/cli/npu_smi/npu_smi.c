/* SPDX-License-Identifier: Apache-2.0 */
/* npu-smi: stands in for the Ascend driver's tool, as far as scripts need it. */
#include "cli/npu_smi/npu_smi.h"
#include "cli/standard_output.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help[] = "Usage: npu-smi info [-t TYPE [-i DEVICE [-c 0]]]\n"
                           "       npu-smi info -l | -m\n"
                           "       npu-smi info watch [-i DEVICE [-c 0]] [-d SECONDS] [-s COLUMNS]\n"
                           "       npu-smi -v\n"
                           "       npu-smi -h\n"
                           "\n"
                           "Shows the simulated devices and their use, in the format of the Ascend driver's tool.\n"
                           "\n"
                           "This tool stands in for the driver's tool of the same name. There is no NPU, so\n"
                           "nothing can be set. Memory in use is that of all programs that use devices; load\n"
                           "is that of programs that run under `cannon run`, or with CANNON_STATS_DIR set.\n"
                           "Temperature and power are 0, and what a chip has printed on it is NA.\n"
                           "\n"
                           "Options:\n"
                           "  -t TYPE        print one table (default: an overview of all devices):\n"
                           "                 @types@\n"
                           "  -i DEVICE      number of the device (default: all devices)\n"
                           "  -c 0           number of the chip, of which each device has one; omits the lines\n"
                           "                 that name the device\n"
                           "  -l             list the devices\n"
                           "  -m             list the devices' chips with their numbers for programs\n"
                           "  -d SECONDS     pause between the lines of watch (default: 1)\n"
                           "  -s COLUMNS     columns of watch, a letter each: p power, t temperature, a AI cores,\n"
                           "                 i AI processors, c control processor, m memory, b memory bandwidth\n"
                           "                 (default: ptaicmb)\n"
                           "  -v, --version  print the version and exit\n"
                           "  -h, --help     print this help and exit\n"
                           "\n"
                           "Exit status:\n"
                           "  0  success\n"
                           "  1  the command line is wrong, or the devices cannot be queried\n"
                           "\n"
                           "Examples:\n"
                           "  npu-smi info\n"
                           "  npu-smi info -t usages -i 0\n"
                           "  npu-smi info watch -i 0 -s am\n";

/* Prints the help, in which @types@ stands for the types of tables. */
static void npu_smi_print_help(FILE *f) {
  const char *types = strchr(help, '@'), *rest = strchr(types + 1, '@') + 1;
  const char *begin = types;
  while (begin[-1] != '\n') begin--;
  fwrite(help, 1, (size_t)(types - help), f);
  npu_smi_print_types(f, (int)(types - begin));
  fputs(rest, f);
}

static int npu_smi_bad_argument(const char *what) {
  fprintf(stderr,
          "npu-smi: '%s' is not known to Cannon, expected info [-t TYPE [-i DEVICE [-c 0]]], info -l, info -m, "
          "info watch, -v or -h\n",
          what);
  return 1;
}

/* Parses a number, of digits only. */
static bool npu_smi_parse_number(const char *text, unsigned most, unsigned *out) {
  char *end;
  const unsigned long n = strtoul(text, &end, 10);
  *out = (unsigned)n;
  return *text >= '0' && *text <= '9' && !*end && n <= most;
}

typedef struct {
  npu_smi_query query; /* without options the type stays NULL */
  npu_smi_watch_options watch;
  bool is_watch, lists, maps;
} npu_smi_command;

static int npu_smi_wrong(char option, const char *text, const char *expected) {
  fprintf(stderr, "npu-smi: -%c is '%s', expected %s\n", option, text, expected);
  return 1;
}

static int npu_smi_wrong_type(const char *type) {
  fprintf(stderr, "npu-smi: -t is '%s', expected ", type);
  npu_smi_print_types(stderr, 0);
  fputc('\n', stderr);
  return 1;
}

/* Takes one option; returns 1 after a message. */
static int npu_smi_option(int option, npu_smi_command *c) {
  unsigned chip;
  switch (option) {
  case 'l': c->lists = true; return 0;
  case 'm': c->maps = true; return 0;
  case 't': c->query.type = optarg; return npu_smi_is_type(optarg) ? 0 : npu_smi_wrong_type(optarg);
  case 'i':
    c->query.device_given = true;
    if (npu_smi_parse_number(optarg, UINT16_MAX, &c->query.device)) return 0;
    return npu_smi_wrong('i', optarg, "the number of a device");
  case 'c':
    c->query.chip_given = true;
    return npu_smi_parse_number(optarg, 0, &chip) ? 0 : npu_smi_wrong('c', optarg, "0, the only chip of a device");
  case 'd':
    if (c->is_watch && npu_smi_parse_number(optarg, 3600, &c->watch.seconds) && c->watch.seconds) return 0;
    return npu_smi_wrong('d', optarg, "seconds, from 1 to 3600, and only after watch");
  default:
    c->watch.columns = optarg;
    if (c->is_watch && *optarg && strspn(optarg, npu_smi_columns) == strlen(optarg)) return 0;
    return npu_smi_wrong('s', optarg, "letters of ptaicmb, and only after watch");
  }
}

/* Parses what follows "info"; argv[0] is that word. */
static int npu_smi_parse(int argc, char **argv, npu_smi_command *c) {
  c->watch.seconds = 1;
  c->watch.columns = npu_smi_columns;
  c->is_watch = argc > 1 && strcmp(argv[1], "watch") == 0;
  if (c->is_watch) argc--, argv++;
  opterr = 0;
  for (int option; (option = getopt(argc, argv, "+t:i:c:lmd:s:")) != -1;) {
    if (option == '?') return npu_smi_bad_argument(argv[optind - 1]);
    if (npu_smi_option(option, c)) return 1;
  }
  if (argv[optind]) return npu_smi_bad_argument(argv[optind]);
  const npu_smi_query *q = &c->query;
  const int n_forms = c->is_watch + c->lists + c->maps + (q->type != NULL);
  if (n_forms > 1) return npu_smi_bad_argument("several of watch, -l, -m and -t");
  if (q->chip_given && !q->device_given) return npu_smi_wrong('i', "", "the number of a device before -c");
  return 0;
}

/* Adds devices that running programs use, if they have more devices than this environment. */
static void add_devices(device_list *devices, const stats_list *processes) {
  const unsigned known = live_device_count(processes), most = known > devices->count ? known : devices->count;
  device_memory *memory = calloc(most + 1, sizeof *memory);
  if (!memory) abort();
  for (unsigned i = 0; i < most && devices->count; i++) memory[i] = devices->memory[i < devices->count ? i : 0];
  free(devices->memory);
  devices->memory = memory;
  devices->count = most;
}

static int print_info(npu_smi_machine *m, npu_smi_command *c) {
  if (c->query.device_given && c->query.device >= m->devices.count) {
    fprintf(stderr, "npu-smi: -i is %u, expected a device below %u\n", c->query.device, m->devices.count);
    return 1;
  }
  if (c->query.device_given && !c->query.type && !c->is_watch && !c->lists && !c->maps) {
    fprintf(stderr, "npu-smi: -i is %u, expected -t before it, with one of ", c->query.device);
    npu_smi_print_types(stderr, 0);
    fputc('\n', stderr);
    return 1;
  }
  if (c->lists) return npu_smi_list(m);
  if (c->maps) return npu_smi_mapping(m);
  if (c->query.type) return npu_smi_info(m, &c->query);
  if (!c->is_watch) return npu_smi_table(m);
  c->watch.device = c->query.device;
  c->watch.device_given = c->query.device_given;
  return npu_smi_watch(m, &c->watch);
}

static int info(int argc, char **argv) {
  npu_smi_command command = {0};
  npu_smi_machine m = {0};
  unsetenv("ASCEND_RT_VISIBLE_DEVICES"); /* the driver's tool ignores it: its device numbers are the machine's */
  if (npu_smi_parse(argc, argv, &command)) return 1;
  m.charges = charges_read(); /* must precede the first use of a device by this process */
  if (device_list_query("npu-smi", &m.devices)) return 1;
  m.processes = live_list(&m.charges);
  add_devices(&m.devices, &m.processes);
  m.profile = profile_find(m.devices.soc_name);
  m.has_hbm = !m.profile || m.profile->hbm_bytes;
  const int status = print_info(&m, &command);
  stats_list_free(&m.processes);
  charges_free(&m.charges);
  return status;
}

static bool wants_help(const char *word) { return strcmp(word, "-h") == 0 || strcmp(word, "--help") == 0; }

static int command_line(int argc, char **argv) {
  const char *command = argc > 1 ? argv[1] : "";
  const bool is_info = strcmp(command, "info") == 0;
  if (wants_help(command) || (is_info && argc > 2 && wants_help(argv[argc - 1]))) {
    npu_smi_print_help(stdout);
    return 0;
  }
  if (strcmp(command, "-v") == 0 || strcmp(command, "--version") == 0) {
    printf("npu-smi version: %s\n", CANNON_VERSION);
    return 0;
  }
  if (is_info) return info(argc - 1, argv + 1);
  if (argc > 1) return npu_smi_bad_argument(command);
  npu_smi_print_help(stderr);
  return 1;
}

int main(int argc, char **argv) { return standard_output_end("npu-smi", command_line(argc, argv)); }
