#include "memory/ledger.h"

#include "memory/machine.h"

static uint64_t own_bytes[SPACE_MAX_DEVICES]; /* by this process's devices; guarded by machine_enter */
static int physical_of[SPACE_MAX_DEVICES] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

void ledger_set_devices(const int *physical, int n) {
  for (int d = 0; d < n; ++d) physical_of[d] = physical[d];
}

static void publish(machine_file *file, int device) {
  if (!file) return;
  atomic_store(&file->places[machine_own_place()].charged_bytes[physical_of[device]], own_bytes[device]);
}

/* Sum of the others' charges. With `look`, the dead are told from the living, which costs a system call each, and dropped. */
static uint64_t sum_others(machine_file *file, int device, bool look) {
  uint64_t sum = 0;
  for (uint32_t i = 0; file && i < MACHINE_PLACES; ++i) {
    _Atomic uint64_t *charged = &file->places[i].charged_bytes[physical_of[device]];
    const uint64_t bytes = i == machine_own_place() ? 0 : atomic_load(charged);
    if (bytes && look && !machine_is_alive(i))
      atomic_store(charged, 0);
    else if (__builtin_add_overflow(sum, bytes, &sum))
      return UINT64_MAX;
  }
  return sum;
}

static bool fits(uint64_t own, uint64_t others, uint64_t bytes, uint64_t limit) {
  return own <= limit && others <= limit - own && bytes <= limit - own - others;
}

bool ledger_charge(int device, uint64_t bytes, uint64_t limit_bytes) {
  machine_file *file = machine_enter();
  const uint64_t own = own_bytes[device];
  const bool granted = fits(own, sum_others(file, device, false), bytes, limit_bytes) ||
                       fits(own, sum_others(file, device, true), bytes, limit_bytes);
  if (granted) own_bytes[device] += bytes;
  publish(file, device);
  machine_leave();
  return granted;
}

void ledger_return(int device, uint64_t bytes) {
  machine_file *file = machine_enter();
  own_bytes[device] -= bytes;
  publish(file, device);
  machine_leave();
}

uint64_t ledger_others(int device) {
  const uint64_t sum = sum_others(machine_enter(), device, true);
  machine_leave();
  return sum;
}
