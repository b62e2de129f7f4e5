/* SPDX-License-Identifier: Apache-2.0 */
/* cannon info: shows what this installation offers. */
#include "cli/commands.h"
#include "cli/coverage.h"
#include "cli/device_list.h"
#include "cli/environment.h"
#include "cli/figures.h"
#include "memory/rules.h"
#include "runtime/dry/profile.h"

#include "acl/acl.h"

#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>

static const char help[] =
    "Usage: cannon info [OPTION]\n"
    "\n"
    "Shows the devices, the device profiles, the version, and the coverage of CANN's interface.\n"
    "\n"
    "The devices are those that a program would see, so ASCEND_RT_VISIBLE_DEVICES\n"
    "applies. The profiles are the values of `cannon run --device`.\n"
    "\n"
    "Options:\n"
    "  --coverage  instead, list the functions of each header: + is implemented; ! can\n"
    "              be linked, but returns that it is not supported; - is missing\n"
    "  --rules     instead, print the rules for the sizes and addresses of allocations\n"
    "              and of pieces of a block, with their sources\n"
    "  -h, --help  print this help and exit\n"
    "\n"
    "Exit status:\n"
    "  0  success\n"
    "  1  the devices cannot be queried\n"
    "  2  the command line is wrong; nothing was done\n"
    "\n"
    "Examples:\n"
    "  cannon info\n"
    "  cannon info --coverage | grep Stream\n";

static void print_version(void) {
  int32_t major = 0, minor = 0, patch = 0;
  aclCANNPackageVersion cann = {0};
  printf("Cannon %s", CANNON_VERSION);
  if (aclsysGetCANNVersion(ACL_PKG_NAME_CANN, &cann) == 0) printf(", in place of CANN %s", cann.version);
  if (aclrtGetVersion(&major, &minor, &patch) == 0) printf(", interface %d.%d.%d", major, minor, patch);
  char prefix[PATH_MAX];
  printf("\nInstalled in %s\n", environment_prefix(prefix));
}

static int print_devices(void) {
  device_list list = {0};
  int status = device_list_query("cannon info", &list);
  if (status) return status;
  printf("\nDevices: %u\n", list.count);
  for (unsigned i = 0; i < list.count; i++)
    printf("  %-3u %-15s %s of memory, %s free\n", i, list.soc_name, format_bytes(list.memory[i].total_bytes),
           format_bytes(list.memory[i].free_bytes));
  return 0;
}

static void print_profiles(void) {
  printf("\nProfiles (the first is the default)\n");
  printf("  %-15s %4s %5s %7s %8s %10s %8s %8s %8s %8s\n", "SoC", "arch", "cubes", "vectors", "memory", "bandwidth",
         "L2", "L1", "UB", "L0C");
  for (unsigned i = 0; i < profile_count(); i++) {
    const device_profile *p = profile_at(i);
    uint64_t bandwidth = p->hbm_bytes ? p->hbm_bandwidth_bytes_per_s : p->ddr_bandwidth_bytes_per_s;
    printf("  %-15s %4u %5u %7u %8s %10s %8s %8s %8s %8s\n", p->soc_name, (unsigned)p->npu_arch,
           (unsigned)p->cube_cores, (unsigned)p->vector_cores, format_bytes(profile_memory_bytes(p)),
           format_rate(bandwidth), format_bytes(p->l2_bytes), format_bytes(p->l1_bytes), format_bytes(p->ub_bytes),
           format_bytes(p->l0c_bytes));
  }
}

static void print_coverage_summary(void) {
  unsigned known = 0, implemented = 0, headers = 0;
  for (unsigned i = 0; i < coverage_count; i++) {
    known += coverage_table[i].known;
    implemented += coverage_table[i].implemented;
    headers += coverage_table[i].implemented > 0;
  }
  printf("\nCoverage: %u of %u functions, in %u of %u headers (cannon info --coverage lists them)\n", implemented,
         known, headers, coverage_count);
}

static void print_names(char mark, const char *const *names) {
  for (; *names; names++) printf("  %c %s\n", mark, *names);
}

static void print_coverage(void) {
  for (unsigned i = 0; i < coverage_count; i++) {
    const coverage_header *h = &coverage_table[i];
    printf("%s %u/%u\n", h->header, h->implemented, h->known);
    print_names('+', h->implemented_names);
    print_names('!', h->refusing_names);
    print_names('-', h->missing_names);
  }
}

/* Sizes include the slack of the default profile. */
static void print_rules(void) {
  unsigned slack = (unsigned)profile_find(PROFILE_DEFAULT_SOC)->alloc_extra_bytes;
  printf("Allocations: the size is rounded up, then grows by the slack (%s; none for 1 GiB pages);\n"
         "a block starts at a multiple of `start`, as promised, and of `given`, which programs rely on as well\n",
         PROFILE_DEFAULT_SOC);
  printf("  %-27s %8s %5s %5s %5s  %-29s %s\n", "call", "round", "slack", "start", "given", "freed by", "source");
  for (const alloc_rule *r = alloc_rules; r < alloc_rules + N_RULES; r++)
    printf("  %-27s %8u %5u %5u %5u  %-29s %s\n", r->call, r->round_bytes, r->slack ? slack : 0, r->promised_align,
           1u << (r->place == ALLOC_DEVICE ? RULE_DEVICE_UNIT_SHIFT : RULE_PINNED_UNIT_SHIFT), free_calls[r->freed_by],
           r->source);
  printf("\nPages: by policy; those of no whole pages are huge above %s, small below\n",
         format_bytes(HUGE_FIRST_BYTES));
  for (const page_policy *p = page_policies; p < page_policies + N_POLICIES; p++)
    printf("  %d %-17s %9s  %-16s %s\n", (int)(p - page_policies), p->name, format_bytes(page_bytes[p->pages]),
           p->only                  ? "whole pages"
           : p->pages == PAGES_HUGE ? "or small ones"
                                    : "",
           p->source);
  printf("\nPieces of a block: start at a multiple, length rounded up plus slack (cannon_check_carved)\n");
  printf("  %-27s %5s %5s %5s  %s\n", "use", "round", "slack", "start", "source");
  for (const carve_rule *r = carve_rules; r < carve_rules + N_CARVE_USES; r++)
    printf("  %-27s %5u %5u %5u  %s\n", r->use, r->round_bytes, r->slack ? slack : 0, r->start_align, r->source);
}

int command_info(int argc, char **argv) {
  enum { COVERAGE = 1, RULES, HELP = 'h' };
  static const struct option options[] = {{"coverage", no_argument, NULL, COVERAGE},
                                          {"rules", no_argument, NULL, RULES},
                                          {"help", no_argument, NULL, HELP},
                                          {NULL, 0, NULL, 0}};
  void (*instead)(void) = NULL;
  argv[0] = "cannon info";
  for (int option; (option = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
    if (option == HELP) {
      fputs(help, stdout);
      return 0;
    }
    if (option != COVERAGE && option != RULES) return EXIT_USAGE;
    instead = option == RULES ? print_rules : print_coverage;
  }
  if (argv[optind]) {
    fprintf(stderr, "cannon info: unexpected argument '%s'\n", argv[optind]);
    return EXIT_USAGE;
  }
  if (instead) {
    instead();
    return 0;
  }
  print_version();
  int status = print_devices();
  print_profiles();
  print_coverage_summary();
  return status;
}
