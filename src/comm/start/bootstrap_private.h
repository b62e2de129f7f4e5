/* SPDX-License-Identifier: Apache-2.0 */
/* What the two sides of a bootstrap session share: the root information's layout, and the frames on the wire.
 *
 * Both are in the byte order of the processor, which is little-endian on all hosts that Cannon runs on. A session is
 * one TCP connection from each rank to the root:
 *
 *   rank -> root   HELLO (bootstrap_hello), then for each exchange CARD (the card), at last LEAVE or ABANDON (words)
 *   root -> rank   WELCOME or FAILED (words); CARDS (the cards of all ranks); FAILED at any time
 *
 * Included by bootstrap.c and bootstrap_root.c, and by the unit test. */
#ifndef CANNON_COMM_START_BOOTSTRAP_PRIVATE_H
#define CANNON_COMM_START_BOOTSTRAP_PRIVATE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "comm/start/bootstrap.h"

enum {
  BOOTSTRAP_VERSION = 1,
  BOOTSTRAP_MAX_RANKS = 1 << 16,
  BOOTSTRAP_MAX_CARD = 64 << 10,
  BOOTSTRAP_WORDS = 400,      /* of a message on the wire, with its final 0 */
  BOOTSTRAP_GRACE_MS = 20000, /* how much longer a rank waits than the root, whose message says who is missing */
  BOOTSTRAP_HOST_NAME = 64,
};
static const uint32_t BOOTSTRAP_MAGIC = 0x544f4f42; /* "BOOT" */

/* Each session's number is random, so that a stranger, or a rank of an earlier session on the same port, is told
 * apart. */
typedef struct {
  uint8_t bytes[16];
} bootstrap_session;

/* The beginning of the 4108 bytes. The rest is 0. */
typedef struct {
  char address[64]; /* as text, since clients print it */
  char magic[8];
  uint32_t version;
  uint32_t may_come_late; /* 1: by a rank table; ranks may be there before the root listens */
  uint16_t family;        /* 4 or 6 */
  uint16_t port;          /* in the host's byte order */
  uint32_t scope;         /* of an IPv6 address */
  uint8_t ip[16];
  bootstrap_session session;
  uint64_t checksum; /* of all bytes, with 0 in this field */
} bootstrap_info;

typedef enum {
  BOOTSTRAP_HELLO = 1,
  BOOTSTRAP_WELCOME,
  BOOTSTRAP_CARD,
  BOOTSTRAP_CARDS,
  BOOTSTRAP_ABANDON,
  BOOTSTRAP_LEAVE,
  BOOTSTRAP_FAILED,
} bootstrap_kind;

typedef struct {
  uint32_t magic;
  uint32_t kind;
  uint32_t number; /* CARD, CARDS: which exchange, from 0; FAILED: the status */
  uint32_t bytes;  /* that follow; at CARDS those of one card */
} bootstrap_frame;

typedef struct {
  bootstrap_session session;
  uint32_t version, n_ranks, rank, pid;
  char host[BOOTSTRAP_HOST_NAME];
} bootstrap_hello;

/* Replaces the timeout where it is not 0. For tests, which set it before any call. */
extern INTERNAL uint32_t bootstrap_test_timeout_ms;

/* The root's timeout. */
status bootstrap_timeout_ms(uint64_t *ms);

/* Monotonic time in ms. */
uint64_t bootstrap_now_ms(void);

void bootstrap_make_info(const struct sockaddr_storage *address, const bootstrap_session *session, bool may_come_late,
                         unsigned char info[BOOTSTRAP_INFO_BYTES]);

/* The session's number for a rank table. */
bootstrap_session bootstrap_session_of(uint64_t number);

typedef struct {
  char text[80];
} bootstrap_words;

/* "10.0.0.1 port 4711". */
bootstrap_words bootstrap_address_words(const struct sockaddr_storage *address);

socklen_t bootstrap_address_bytes(const struct sockaddr_storage *address);

/* Sockets of this module are closed in a forked child: there they would keep a connection open after its owner has
 * died. bootstrap_socket_keep notes the descriptor (and returns it), bootstrap_socket_close forgets and closes it. */
int bootstrap_socket_keep(int fd);
void bootstrap_socket_close(int fd);

#endif
