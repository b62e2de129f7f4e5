/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/fault.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/hooks.h"
#include "memory/memory.h"

static struct sigaction previous[2]; /* the handlers of SIGSEGV and SIGBUS that were installed before */
static const int signals[2] = {SIGSEGV, SIGBUS};

_Thread_local const fault_copy *volatile fault_running_copy;

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

static void fault_tell(uintptr_t address, const char *text, int n) {
  if (write(STDERR_FILENO, text, (size_t)n) < 0) return;
  if (hooks_any()) hooks_fault(address, text);
}

/* Explains a host access to device memory. The program ends right afterwards, so snprintf is used although it is not
 * listed as async-signal-safe. */
static void fault_explain(uintptr_t address) {
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
        space_device_of(address), (uintmax_t)b->number, origin_call(b->origin), site);
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
  fault_tell(address, text, n);
}

/* ---- in copies --------------------------------------------------------------------------------------------------- */

/* aarch64 ignores the highest byte of an address, and the kernel clears it in the one that it reports. */
static uintptr_t without_tag(uintptr_t address) {
#if defined(__aarch64__)
  return address & (UINTPTR_MAX >> 8);
#else
  return address;
#endif
}

/* Whether the copy accesses the address on the side that begins at `start`. */
static bool is_inside(uintptr_t address, const void *start, const fault_copy *c, size_t pitch) {
  return start && without_tag(address - (uintptr_t)start) < (c->height - 1) * pitch + c->width;
}

/* Whether x86-64 can't have such an address: the fault it causes does not report the address. */
static bool is_non_canonical(uintptr_t address) {
#if defined(__x86_64__)
  const int64_t top = (int64_t)address >> 47;
  return top != 0 && top != -1;
#else
  (void)address;
  return false;
#endif
}

/* Whether the faulting access was a write; true where the processor does not report it. */
static bool is_write(const void *context) {
#if defined(__x86_64__)
  return ((const ucontext_t *)context)->uc_mcontext.gregs[REG_ERR] & 2;
#elif defined(__aarch64__)
  /* Records of varying size follow the registers; one of them has the exception syndrome, whose bit 6 is WnR. */
  enum { SYNDROME_WRITE = 1 << 6 };
  const char *at = (const char *)((const ucontext_t *)context)->uc_mcontext.__reserved;
  for (const struct _aarch64_ctx *head; (head = (const void *)at)->magic && head->size; at += head->size)
    if (head->magic == ESR_MAGIC) return ((const struct esr_context *)(const void *)at)->esr & SYNDROME_WRITE;
  return true;
#else
  (void)context;
  return true;
#endif
}

static const char *reason_of(const siginfo_t *info, bool no_address) {
  if (no_address) return "it is no address";
  if (info->si_signo == SIGBUS) return "there is no page for it (of a file that was cut short, or no memory is left)";
  return info->si_code == SEGV_ACCERR ? "its page is protected" : "nothing is mapped there";
}

/* Whether the copy caused the fault; then *to_dst says on which side, and *p is the address that the copy could not
 * access. */
static bool find_side(const fault_copy *c, const siginfo_t *info, const void *context, bool *to_dst, uintptr_t *p) {
  const uintptr_t address = (uintptr_t)info->si_addr;
  const bool dst = is_inside(address, c->dst, c, c->dst_pitch), src = is_inside(address, c->src, c, c->src_pitch);
  *to_dst = dst && (!src || is_write(context));
  const uintptr_t start = (uintptr_t)(*to_dst ? c->dst : c->src);
  *p = start + without_tag(address - start);
  if (dst || src) return true;
  *to_dst = is_non_canonical((uintptr_t)c->dst);
  *p = (uintptr_t)(*to_dst ? c->dst : c->src);
  return !address && is_non_canonical(*p);
}

static void fault_explain_copy(const fault_copy *c, const siginfo_t *info, const void *context) {
  char text[512], call[64], from[32] = "";
  bool to_dst;
  uintptr_t p;
  if (!find_side(c, info, context, &to_dst, &p)) return;
  const char *dst_name = c->src ? "dst" : "devPtr";
  const uintptr_t dst = memory_address_of_view(c->dst), src = memory_address_of_view(c->src);
  const void *side = to_dst ? c->dst : c->src;
  if (c->call)
    snprintf(call, sizeof call, "%s(", c->call);
  else
    snprintf(call, sizeof call, "the %s of task %u in stream %u (", c->src ? "copy" : "fill", c->task, c->stream);
  if (c->src) snprintf(from, sizeof from, ", src = %#jx", (uintmax_t)src);
  const int n = snprintf(text, sizeof text,
                         "cannon: %s%s = %#jx%s, %ju bytes): the %s memory at %#jx, byte %ju of %s, can't be %s: %s.\n",
                         call, dst_name, (uintmax_t)dst, from, (uintmax_t)(c->width * c->height),
                         memory_device_of_view(side) >= 0 ? "device's" : "host",
                         (uintmax_t)memory_address_of_view((void *)p), (uintmax_t)(p - (uintptr_t)side),
                         to_dst ? dst_name : "src", to_dst ? "written" : "read", reason_of(info, is_non_canonical(p)));
  fault_tell(memory_address_of_view((void *)p), text, n);
}

/* ---- in registered memory ---------------------------------------------------------------------------------------- */

/* Explains a fault in registered host memory, by a kernel or by the program itself. */
static void fault_explain_registered(const siginfo_t *info) {
  char text[384];
  uintptr_t start;
  uint64_t bytes;
  const uintptr_t address = (uintptr_t)info->si_addr;
  if (!registered_find(address, &start, &bytes)) return;
  const int n = snprintf(text, sizeof text,
                         "cannon: the registered host memory at %#jx, byte %ju of the %ju bytes at %#jx, can't be "
                         "reached: %s.\ncannon: it was unmapped or protected after aclrtHostRegister, expected "
                         "aclrtHostUnregister before.\n",
                         (uintmax_t)address, (uintmax_t)(address - start), (uintmax_t)bytes, (uintmax_t)start,
                         reason_of(info, false));
  fault_tell(address, text, n);
}

static void on_fault(int signal_number, siginfo_t *info, void *context) {
  const int i = signal_number == SIGBUS;
  const uintptr_t address = (uintptr_t)info->si_addr;
  const bool accessed = info->si_code > 0; /* else the signal was sent by kill() */
  const bool ours = space_device_of(address) >= 0 || space_is_reserved(address);
  const fault_copy *copy = fault_running_copy;
  fault_running_copy = NULL; /* the previous handler may jump out of the copy */
  if (ours)
    fault_explain(address);
  else if (copy && accessed)
    fault_explain_copy(copy, info, context);
  else if (accessed)
    fault_explain_registered(info);
  if (!ours && previous[i].sa_flags & SA_SIGINFO) {
    previous[i].sa_sigaction(signal_number, info, context);
  } else if (!ours && previous[i].sa_handler != SIG_DFL && previous[i].sa_handler != SIG_IGN) {
    previous[i].sa_handler(signal_number);
  } else {
    /* Returning repeats the access, and the default action ends the program with the right signal. */
    signal(signal_number, SIG_DFL);
    if (!accessed) raise(signal_number); /* there is nothing to repeat */
  }
}

void fault_handler_install(void) {
  static _Atomic int installed;
  if (atomic_exchange(&installed, 1)) return;
  struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
  sigemptyset(&action.sa_mask);
  for (int i = 0; i < 2; ++i) sigaction(signals[i], &action, &previous[i]);
}
