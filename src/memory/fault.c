#include "memory/fault.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "memory/memory.h"

static struct sigaction previous[2]; /* of SIGSEGV and SIGBUS */
static const int signals[2] = {SIGSEGV, SIGBUS};

void fault_describe_site(void *site, char *text, size_t bytes) {
  Dl_info info;
  if (!site || !dladdr(site, &info) || !info.dli_fname) {
    snprintf(text, bytes, "%p", site);
    return;
  }
  const char *object = strrchr(info.dli_fname, '/') ? strrchr(info.dli_fname, '/') + 1 : info.dli_fname;
  const uintptr_t base = (uintptr_t)(info.dli_sname ? info.dli_saddr : info.dli_fbase);
  snprintf(text, bytes, "%s(%s+%#jx)", object, info.dli_sname ? info.dli_sname : "",
           (uintmax_t)((uintptr_t)site - base));
}

/* The program ends right after this, so a formatter that is not async-signal-safe by the letter is worth its words. */
static void explain(uintptr_t address) {
  char text[512], site[192];
  int n;
  const heap_block *b = memory_find((void *)address);
  const uint64_t bytes = b ? b->bytes : 0;
  if (bytes) {
    fault_describe_site(b->site, site, sizeof site);
    n = snprintf(
        text, sizeof text,
        "cannon: the host accessed device memory at %#jx: byte %ju of the block of %ju bytes at %#jx on device "
        "%d,\ncannon: allocation %ju, by %s called from %s.\n"
        "cannon: only kernels and aclrtMemcpy reach device memory, here as on an NPU.\n",
        (uintmax_t)address, (uintmax_t)(address - b->address), (uintmax_t)b->requested, (uintmax_t)b->address,
        space_device_of(address), (uintmax_t)b->number, b->call, site);
  } else if (space_is_reserved(address)) {
    n = snprintf(text, sizeof text,
                 "cannon: the host accessed the reserved address %#jx, where %s.\n"
                 "cannon: only kernels and aclrtMemcpy reach device memory, here as on an NPU.\n",
                 (uintmax_t)address,
                 vmm_device_of(address) >= 0 ? "device memory is mapped" : "nothing is mapped that the host reaches");
  } else {
    n = snprintf(
        text, sizeof text,
        "cannon: the host accessed device memory at %#jx on device %d, where no block is live (freed before?).\n",
        (uintmax_t)address, space_device_of(address));
  }
  if (write(STDERR_FILENO, text, (size_t)n) < 0) return;
}

static void on_fault(int signal_number, siginfo_t *info, void *context) {
  const int i = signal_number == SIGBUS;
  const uintptr_t address = (uintptr_t)info->si_addr;
  const bool ours = space_device_of(address) >= 0 || space_is_reserved(address);
  if (ours) explain(address);
  if (!ours && previous[i].sa_flags & SA_SIGINFO) {
    previous[i].sa_sigaction(signal_number, info, context);
  } else if (!ours && previous[i].sa_handler != SIG_DFL && previous[i].sa_handler != SIG_IGN) {
    previous[i].sa_handler(signal_number);
  } else {
    /* Returning repeats the access, and the default action ends the program with the right signal. */
    signal(signal_number, SIG_DFL);
    if (info->si_code <= 0) raise(signal_number); /* sent by kill(): there is no access to repeat */
  }
}

void fault_handler_install(void) {
  static _Atomic int installed;
  if (atomic_exchange(&installed, 1)) return;
  struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
  sigemptyset(&action.sa_mask);
  for (int i = 0; i < 2; ++i) sigaction(signals[i], &action, &previous[i]);
}
