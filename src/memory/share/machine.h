/* What the processes of one simulated machine share: a small file that all of them map. In it:
 *
 *   place    of a process: its id, and what it has charged on each device (ledger.h)
 *   export   memory of one process that others may import, found by a key (exchange.h)
 *   record   what an export is, in words and numbers of any length, behind the mapped part
 *
 * A machine is the processes of one user that simulate the same device with the same memory
 * (/dev/shm/cannon-<uid>-<name>), or all those that are given the same file in CANNON_LEDGER. Other machines know
 * nothing of it.
 *
 * A process is alive while it holds the kernel's lock (fcntl) on its place's byte, which goes with it however it
 * ends, and which no forked child inherits: no process id is trusted, nothing has to be cleaned up, and a dead
 * process's place is simply taken again. The lock over the whole file is of the same kind, so that none is ever left
 * locked. The last process to end removes the file; where that was killed, the next to start does, on whichever
 * machine. All calls from any thread. */
#ifndef CANNON_MEMORY_SHARE_MACHINE_H
#define CANNON_MEMORY_SHARE_MACHINE_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/status.h"
#include "memory/space.h"

enum { MACHINE_VERSION = 1, MACHINE_PLACES = 256, MACHINE_EXPORTS = 2048, MACHINE_RECORD_BYTES = 1 << 20 };
enum { MACHINE_PLACE_BYTE = 1 };  /* of the file: place 0's lock; the others' follow */
#define MACHINE_MAGIC 0x4d4e4e43u /* "CNNM" */

/* Where the files are, and what their names begin with. */
#define MACHINE_FOLDER "/dev/shm"
#define MACHINE_PREFIX "cannon-"

typedef struct {
  _Atomic int32_t pid;
  _Atomic uint32_t asked, answered;                  /* times to give back what it only keeps: futexes */
  _Atomic uint64_t charged_bytes[SPACE_MAX_DEVICES]; /* by physical device; written by its owner, and by who drops it */
} machine_place;

typedef struct {
  uint64_t serial; /* no other export has had it; 0: unused */
  uint32_t owner;  /* place */
  uint32_t ended;  /* 1: nobody takes it any more */
  uint64_t importers[MACHINE_PLACES / 64];
} machine_export;

typedef struct {
  uint32_t magic, version;
  uint64_t next_serial;
} machine_head;

typedef struct {
  machine_head head;
  machine_place places[MACHINE_PLACES];
  machine_export exports[MACHINE_EXPORTS];
} machine_file;

/* Once, before anything is shared. name: of the machine, where CANNON_LEDGER is not set. Where it fails, the log
 * says so, and the process is alone. */
void machine_join(const char *name);

/* Locks the file, or just the other threads out where the process is alone, or another one, which may be stopped, keeps
 * the file locked (file_lock.h): NULL. Then nothing of the library's but the calls below, until machine_leave. */
machine_file *machine_enter(void);

/* As machine_enter, but locks no other process out, and so never waits for one: for what is read, or written by its
 * owner alone. */
machine_file *machine_look(void);

/* Inside: why the latest machine_enter found the file locked, NULL where it did not; words that begin with the path, or
 * the process. */
const char *machine_busy(void);
void machine_leave(void);

/* Why the process is alone, or what keeps the file locked, as a failure. */
status machine_refuse(void);

/* This process's place; whether the process of a place lives. */
uint32_t machine_own_place(void);
bool machine_is_alive(uint32_t place);

/* Bytes of an export's record, from its start: false where the file does not have or take them. */
bool machine_read_record(uint32_t export, uint64_t from, void *to, size_t bytes);
bool machine_write_record(uint32_t export, uint64_t from, const void *what, size_t bytes);
void machine_drop_record(uint32_t export);

/* At the end of the process. */
void machine_quit(void);

#endif
