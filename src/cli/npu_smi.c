/* SPDX-License-Identifier: Apache-2.0 */
/* npu-smi: stands in for the Ascend driver's tool, as far as scripts need it. */
#include "cli/npu_smi.h"
#include "cli/standard_output.h"
#include "runtime/profile.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help[] = "Usage: npu-smi info [-t TYPE -i DEVICE [-c 0]]\n"
                           "       npu-smi -v\n"
                           "       npu-smi -h\n"
                           "\n"
                           "Shows the simulated devices and their use, in the format of the Ascend driver's tool.\n"
                           "\n"
                           "This tool stands in for the driver's tool of the same name. There is no NPU, so\n"
                           "nothing can be set. Memory in use is that of all programs that use devices; load\n"
                           "is that of programs that run under `cannon run`, or with CANNON_STATS_DIR set.\n"
                           "\n"
                           "Options:\n"
                           "  -t TYPE        print one table of one device: usages or memory (default: print an\n"
                           "                 overview of all devices)\n"
                           "  -i DEVICE      number of the device\n"
                           "  -c 0           number of the chip, of which each device has one; omits the lines\n"
                           "                 that name the device\n"
                           "  -v, --version  print the version and exit\n"
                           "  -h, --help     print this help and exit\n"
                           "\n"
                           "Exit status:\n"
                           "  0  success\n"
                           "  1  the command line is wrong, or the devices cannot be queried\n"
                           "\n"
                           "Examples:\n"
                           "  npu-smi info\n"
                           "  npu-smi info -t usages -i 0\n";

static int npu_smi_bad_argument(const char *what) {
  fprintf(stderr, "npu-smi: '%s' is not known to Cannon, expected info [-t TYPE -i DEVICE [-c 0]], -v or -h\n", what);
  return 1;
}

npu_smi_memory npu_smi_memory_of(const npu_smi_machine *m, unsigned device) {
  const live_device live = live_device_of(&m->processes, device);
  return (npu_smi_memory){live.size_bytes ? live.size_bytes : m->devices.memory[device].total_bytes,
                          live.committed_bytes};
}

/* Parses a number, of digits only. */
static bool npu_smi_parse_number(const char *text, unsigned most, unsigned *out) {
  char *end;
  const unsigned long n = strtoul(text, &end, 10);
  *out = (unsigned)n;
  return *text >= '0' && *text <= '9' && !*end && n <= most;
}

/* Parses what follows "info"; argv[0] is that word. Without options the type stays NULL. */
static int npu_smi_parse(int argc, char **argv, npu_smi_query *query) {
  const char *device = NULL;
  unsigned chip;
  opterr = 0;
  for (int option; (option = getopt(argc, argv, "t:i:c:")) != -1;) {
    switch (option) {
    case 't': query->type = optarg; break;
    case 'i': device = optarg; break;
    case 'c':
      query->chip_given = true;
      if (npu_smi_parse_number(optarg, 0, &chip)) break;
      fprintf(stderr, "npu-smi: -c is '%s', expected 0, the only chip of a device\n", optarg);
      return 1;
    default: return npu_smi_bad_argument(argv[optind - 1]);
    }
  }
  if (argv[optind]) return npu_smi_bad_argument(argv[optind]);
  if (!query->type && !device && !query->chip_given) return 0;
  if (!query->type || (strcmp(query->type, "usages") != 0 && strcmp(query->type, "memory") != 0)) {
    fprintf(stderr, "npu-smi: -t is '%s', expected %s\n", query->type ? query->type : "", npu_smi_types);
    return 1;
  }
  if (device && npu_smi_parse_number(device, UINT16_MAX, &query->device)) return 0;
  fprintf(stderr, "npu-smi: -i is '%s', expected the number of a device\n", device ? device : "");
  return 1;
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

static int info(int argc, char **argv) {
  npu_smi_query query = {0};
  npu_smi_machine m = {0};
  unsetenv("ASCEND_RT_VISIBLE_DEVICES"); /* the driver's tool ignores it: its device numbers are the machine's */
  if (npu_smi_parse(argc, argv, &query)) return 1;
  m.charges = charges_read(); /* must precede the first use of a device by this process */
  if (device_list_query("npu-smi", &m.devices)) return 1;
  m.processes = live_list(&m.charges);
  add_devices(&m.devices, &m.processes);
  if (query.type && query.device >= m.devices.count) {
    fprintf(stderr, "npu-smi: -i is %u, expected a device below %u\n", query.device, m.devices.count);
    stats_list_free(&m.processes);
    charges_free(&m.charges);
    return 1;
  }
  const device_profile *profile = profile_find(m.devices.soc_name);
  m.has_hbm = !profile || profile->hbm_bytes;
  const int status = query.type ? npu_smi_info(&m, &query) : npu_smi_table(&m);
  stats_list_free(&m.processes);
  charges_free(&m.charges);
  return status;
}

static int command_line(int argc, char **argv) {
  const char *command = argc > 1 ? argv[1] : "";
  if (strcmp(command, "-h") == 0 || strcmp(command, "--help") == 0) {
    fputs(help, stdout);
    return 0;
  }
  if (strcmp(command, "-v") == 0 || strcmp(command, "--version") == 0) {
    printf("npu-smi version: %s\n", CANNON_VERSION);
    return 0;
  }
  if (strcmp(command, "info") == 0 && argc > 2 && (strcmp(argv[2], "-h") == 0 || strcmp(argv[2], "--help") == 0)) {
    fputs(help, stdout);
    return 0;
  }
  if (strcmp(command, "info") == 0) return info(argc - 1, argv + 1);
  if (argc > 1) return npu_smi_bad_argument(command);
  fputs(help, stderr);
  return 1;
}

int main(int argc, char **argv) { return standard_output_end("npu-smi", command_line(argc, argv)); }
