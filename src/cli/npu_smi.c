/* npu-smi: the driver's tool, as far as scripts need it: they cut the chip's name and the memory out of
 * `npu-smi info`. So the lines, their order and the words' places are those of the real table; the text
 * inside is 98 wide. */
#include "cli/device_list.h"
#include "runtime/profile.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static const char help[] = "Usage: npu-smi info      table of the simulated devices\n"
                           "       npu-smi -v        version\n"
                           "       npu-smi -h        this text\n\n"
                           "Cannon's stand-in for the Ascend driver's tool: there is no NPU, nothing can be set.\n";

static const char whole[] =
    "+------------------------------------------------------------------------------------------------+\n";
static const char columns[] =
    "+---------------------------+---------------+----------------------------------------------------+\n";
static const char columns_end[] =
    "+===========================+===============+====================================================+\n";
static const char processes[] =
    "+---------------------------+---------------+----------------------------------------------------+\n"
    "| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |\n"
    "+===========================+===============+====================================================+\n";

/* Two lines a device. Power, temperature and load have no meaning here; scripts expect numbers. */
static void print_device(unsigned i, const char *chip, const device_memory *memory, int has_hbm) {
  unsigned total = (unsigned)(memory->total_bytes >> 20);
  unsigned used = total - (unsigned)(memory->free_bytes >> 20);
  printf("| %-5u %-19s | %-13s | %-12s%-18s%-5s/ %-14s|\n", i, chip, "OK", "0.0", "0", "0", "0");
  printf("| %-5u %-19s | 0000:%02X:00.0  | %-12s%-5u/ %-11u%-5u/ %-14u|\n", 0u, "", i + 1, "0", has_hbm ? 0 : used,
         has_hbm ? 0 : total, has_hbm ? used : 0, has_hbm ? total : 0);
}

static int info(void) {
  device_list list = {0};
  int status = device_list_query("npu-smi", &list);
  if (status) return status;
  const device_profile *profile = profile_find(list.soc_name);
  const char *chip = strncasecmp(list.soc_name, "Ascend", 6) == 0 ? list.soc_name + 6 : list.soc_name;

  fputs(whole, stdout);
  printf("| npu-smi %-24s Version: %-52s |\n", CANNON_VERSION, CANNON_VERSION);
  fputs(columns, stdout);
  printf("| %-25s | %-13s | %-51s|\n", "NPU   Name", "Health", "Power(W)    Temp(C)           Hugepages-Usage(page)");
  printf("| %-25s | %-13s | %-51s|\n", "Chip", "Bus-Id", "AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)");
  fputs(columns_end, stdout);
  for (unsigned i = 0; i < list.count; i++) {
    print_device(i, chip, &list.memory[i], !profile || profile->hbm_bytes);
    fputs(columns_end, stdout);
  }
  fputs(processes, stdout);
  for (unsigned i = 0; i < list.count; i++) {
    char text[64];
    snprintf(text, sizeof text, "No running processes found in NPU %u", i);
    printf("| %-94s |\n", text);
    fputs(columns_end, stdout);
  }
  return 0;
}

int main(int argc, char **argv) {
  const char *command = argc > 1 ? argv[1] : "";
  if (strcmp(command, "-h") == 0 || strcmp(command, "--help") == 0) {
    fputs(help, stdout);
    return 0;
  }
  if (strcmp(command, "-v") == 0 || strcmp(command, "--version") == 0) {
    printf("npu-smi version: %s\n", CANNON_VERSION);
    return 0;
  }
  if (strcmp(command, "info") == 0 && argc == 2) return info();
  if (argc < 2)
    fputs(help, stderr);
  else
    fprintf(stderr, "npu-smi: '%s' is not known to Cannon, expected info, -v or -h\n", argv[argc > 2 ? 2 : 1]);
  return 1;
}
