/* SPDX-License-Identifier: Apache-2.0 */
/* A simulated machine: a small file that the processes of the machine map and through which they share devices' memory.
 * Used by ledger.c, exchange.c and the runtime; calls file_lock.h. The file has:
 *
 *   places    one per process: its id, and what it has charged on each device (ledger.h)
 *   exports   memory of one process that others may import, found by a key (exchange.h)
 *   waits     what the tasks of a process's communicators wait for (comm/waits.h)
 *   records   the descriptions of exports, of variable length, behind the mapped part of the file
 *
 * The processes of one user that simulate the same device with the same memory size share a machine
 * (/dev/shm/cannon-<uid>-<name>), as do all processes that are given the same file in CANNON_LEDGER. Machines do not
 * interact.
 *
 * A process is alive while it holds the kernel's lock (fcntl) on its place's byte. The kernel releases the lock however
 * the process ends, and a forked child does not inherit it. So no process id is trusted, nothing has to be cleaned up,
 * and the place of a dead process is simply taken again. The lock over the whole file is of the same kind, so it is
 * never left locked. The last process to end removes the file; if that one is killed, the next process of any machine
 * that starts removes it. Thread-safe. */
#ifndef CANNON_MEMORY_SHARE_MACHINE_H
#define CANNON_MEMORY_SHARE_MACHINE_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/status.h"
#include "memory/space.h"

enum {
  MACHINE_VERSION = 3,
  MACHINE_PLACES = 256,
  MACHINE_EXPORTS = 2048,
  MACHINE_RECORD_BYTES = 1 << 20,
  MACHINE_WAITS = 16
};
enum { MACHINE_PLACE_BYTE = 1 };  /* byte of the file with place 0's lock; the other places' bytes follow */
#define MACHINE_MAGIC 0x4d4e4e43u /* "CNNM" */

/* The folder of the files, and the prefix of their names. */
#define MACHINE_FOLDER "/dev/shm"
#define MACHINE_PREFIX "cannon-"

typedef struct {
  _Atomic int32_t pid;
  _Atomic uint32_t asked, answered; /* futexes: how often it was asked to give memory back, and has done so */
  _Atomic uint64_t
      charged_bytes[SPACE_MAX_DEVICES]; /* by physical device; written by the process, or when it has ended */
} machine_place;

typedef struct {
  uint64_t serial;                         /* unique among all exports; 0: the slot is unused */
  uint32_t owner;                          /* place of the exporter */
  uint32_t ended;                          /* 1: no other process may import it any more */
  uint64_t importers[MACHINE_PLACES / 64]; /* bit per place that has imported it */
} machine_export;

/* A task of a communicator that waits for another rank. Ranks are numbers in the communicator; a device is the number
 * that its process has for it. */
typedef struct {
  uint64_t communicator; /* a hash of its name */
  char name[32];         /* the beginning of its name */
  uint64_t number;       /* of the call; of a transfer, between the two ranks */
  uint64_t since_ns;     /* when the stream came to the task; CLOCK_MONOTONIC */
  int32_t pid, device;
  uint32_t rank, n_ranks, kind; /* kind: comm_kind */
  uint32_t other;               /* the rank that it waits for; UINT32_MAX: not known, and the next two are not set */
  int32_t other_pid, other_device;
  char place[32]; /* the line of the Python program that has made the call; "" where it is not known */
} machine_wait;
enum { MACHINE_WAIT_WORDS = sizeof(machine_wait) / sizeof(uint64_t) };
_Static_assert(sizeof(machine_wait) % sizeof(uint64_t) == 0, "whole words");

/* A place for one, which one task of its process writes and any process reads. A reader that has seen the same even
 * version before and after has read a whole entry. */
typedef struct {
  _Atomic uint32_t version; /* odd: is being written */
  _Atomic uint32_t is_used;
  _Atomic uint64_t words[MACHINE_WAIT_WORDS];
} machine_wait_slot;

typedef struct {
  uint32_t magic, version;
  uint64_t next_serial;
} machine_head;

typedef struct {
  machine_head head;
  machine_place places[MACHINE_PLACES];
  machine_export exports[MACHINE_EXPORTS];
  machine_wait_slot waits[MACHINE_PLACES][MACHINE_WAITS];
} machine_file;

/* Joins the machine; called once, before anything is shared. name: the machine's, used unless CANNON_LEDGER is set.
 * Where that fails, a warning is printed and logged, and the process shares nothing with others. */
void machine_join(const char *name);

/* Locks out the other threads, and, by a lock on the file, the other processes, until machine_leave. Returns NULL, with
 * only the other threads locked out, where the process shares nothing, or another process, which may be stopped, keeps
 * the file locked (file_lock.h). Until machine_leave, the caller calls nothing of the library but the functions
 * below. */
machine_file *machine_enter(void);

/* As machine_enter, but does not lock out other processes, and so never waits for one: to read, or to write what only
 * this process writes. */
machine_file *machine_look(void);

/* Between machine_enter or machine_look and machine_leave: if the latest machine_enter found the file locked, a text
 * that begins with the process or the path; else NULL. */
const char *machine_busy(void);
void machine_leave(void);

/* Returns ST_NOT_SUPPORTED with a message why the process shares nothing, or which process keeps the file locked. */
status machine_refuse(void);

/* Two numbers that processes have in common if, and only if, they share this machine. False where the process shares
 * nothing. */
bool machine_identity(uint64_t identity[2]);

/* This process's place; whether the process of a place is alive. */
uint32_t machine_own_place(void);
bool machine_is_alive(uint32_t place);

/* Read and write `bytes` bytes of an export's record at offset `from`; false where the file does not have them, or has
 * no room for them. machine_drop_record gives the record's memory back. */
bool machine_read_record(uint32_t export, uint64_t from, void *to, size_t bytes);
bool machine_write_record(uint32_t export, uint64_t from, const void *what, size_t bytes);
void machine_drop_record(uint32_t export);

/* Leaves the machine at the end of the process, and removes its file if this was the last process. */
void machine_quit(void);

#endif
