/* SPDX-License-Identifier: Apache-2.0 */
#include "feed/byte_stream.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zlib.h>

#include "base/file.h"
#include "base/settings/faults.h"

enum { BUFFER_BYTES = 1 << 17, GZIP_ONLY = 15 + 16 /* zlib's window of 32 KiB, with gzip's header */ };

struct byte_stream {
  int fd, stop;
  bool gzip, inside; /* inside: a member of the gzip file has begun and not ended */
  const char *path;  /* the caller's, for messages */
  z_stream z;        /* of gzip: next_in and avail_in are of buffer */
  unsigned char buffer[BUFFER_BYTES];
};

static int byte_stream_descriptor(const char *path) {
  const int own = file_descriptor_of(path);
  const int fd = strcmp(path, "/dev/stdin") == 0 ? STDIN_FILENO : own;
  struct stat st;
  const bool duplicate = fd >= 0 && fstat(fd, &st) == 0 && !S_ISREG(st.st_mode); /* a file begins anew */
  /* Without O_NONBLOCK this would wait for the writer of a pipe, where nobody can end the wait. */
  return duplicate ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

status byte_stream_open(const char *path, bool gzip, int stop, byte_stream **out) {
  FAULT_TRY(FAULT_FILE, NULL, ST_INVALID_VALUE, "%s can't be opened", path);
  byte_stream *s = calloc(1, sizeof *s);
  if (!s) return fail(ST_NO_HOST_MEMORY, "no host memory to read %s", path);
  *s = (byte_stream){.fd = byte_stream_descriptor(path), .stop = stop, .gzip = gzip, .path = path};
  status st = ST_OK;
  if (s->fd < 0)
    st = fail(ST_INVALID_VALUE, "%s can't be opened: %s", path, strerror(errno));
  else if (gzip && inflateInit2(&s->z, GZIP_ONLY) != Z_OK)
    st = fail(ST_NO_HOST_MEMORY, "no host memory to decompress %s", path);
  if (st == ST_OK) {
    *out = s;
    return ST_OK;
  }
  if (s->fd >= 0) close(s->fd);
  free(s);
  return st;
}

void byte_stream_close(byte_stream *s) {
  if (!s) return;
  if (s->gzip) inflateEnd(&s->z);
  close(s->fd);
  free(s);
}

/* Reads what there is, at least a byte unless the file ends. */
static status byte_stream_read_file(byte_stream *s, void *to, size_t bytes, size_t *got) {
  for (;;) {
    struct pollfd polled[2] = {{.fd = s->fd, .events = POLLIN}, {.fd = s->stop, .events = POLLIN}};
    if (poll(polled, 2, -1) < 0 && errno != EINTR) break;
    if (polled[1].revents) return fail(ST_FAILURE, "%s is not read on: the feed was stopped", s->path);
    if (!polled[0].revents) continue;
    const ssize_t n = read(s->fd, to, bytes);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n < 0) break;
    *got = (size_t)n;
    return ST_OK;
  }
  return fail(ST_FAILURE, "%s can't be read: %s", s->path, strerror(errno));
}

/* Makes the next bytes of a gzip file, which may consist of several members. *made is 0 at its end. */
static status byte_stream_inflate(byte_stream *s, void *to, size_t bytes, size_t *made) {
  s->z.next_out = to;
  s->z.avail_out = (uInt)bytes;
  while (s->z.avail_out == bytes) {
    if (!s->z.avail_in) {
      size_t got;
      TRY(byte_stream_read_file(s, s->buffer, sizeof s->buffer, &got));
      s->z.next_in = s->buffer;
      s->z.avail_in = (uInt)got;
      if (!got && s->inside) return fail(ST_FAILURE, "%s ends inside of its compressed data", s->path);
      if (!got) break;
    }
    s->inside = true;
    const int result = inflate(&s->z, Z_NO_FLUSH);
    if (result == Z_STREAM_END) {
      s->inside = false;
      inflateReset(&s->z);
    } else if (result != Z_OK && (result != Z_BUF_ERROR || s->z.avail_in)) {
      return fail(ST_FAILURE, "%s is no gzip file, or damaged: %s", s->path, s->z.msg ? s->z.msg : "no reason given");
    }
  }
  *made = bytes - s->z.avail_out;
  return ST_OK;
}

status byte_stream_read(byte_stream *s, void *to, uint64_t bytes, uint64_t *got) {
  for (*got = 0; *got < bytes;) {
    const size_t most = bytes - *got < 1 << 30 ? (size_t)(bytes - *got) : 1 << 30;
    size_t n = 0;
    unsigned char *at = (unsigned char *)to + *got;
    TRY(s->gzip ? byte_stream_inflate(s, at, most, &n) : byte_stream_read_file(s, at, most, &n));
    if (!n) break;
    *got += n;
  }
  return ST_OK;
}
