/* SPDX-License-Identifier: Apache-2.0 */
/** \file
 * Data that arrives in time: records are read from files larger than memory, shuffled, decoded by several threads and
 * copied to the device, some batches ahead of the program that consumes them. In libcannon.so.
 *
 *     files ──reader──▶ records ──decoders──▶ pinned memory ──copy──▶ device memory ──▶ batches
 *                                 N threads │         on a stream of the feed         │
 *                                           └─ `ahead` + 1 slots, a ring: each has both ┘
 *
 * Who owns what:
 * - A reader (cannon_reader) has the files mapped. A feed that uses it keeps it open, whoever closes it.
 * - A feed (cannon_feed) owns its threads, its stream and the slots. A batch is a slot that is lent to the program:
 *   cannon_feed_next() lends it and makes the program's stream wait for the copy; cannon_feed_release() gives it back,
 *   and the slot is filled again after the program's stream has passed that point. No host thread waits for either.
 * - Back-pressure: decoders wait while all slots are full or lent.
 *
 * The order of the records depends on the seed, the epoch and the rank alone, not on the number of threads. An error in
 * a record is told by its number and file, when the batches before it were consumed; the error of the first record in
 * the order is told, however many there are.
 *
 * All functions return ACL_SUCCESS or an error code of acl_rt.h, and leave a message for aclGetRecentErrMsg().
 * Common errors are not repeated below: ACL_ERROR_INVALID_PARAM, a pointer that must not be NULL is NULL;
 * ACL_ERROR_RT_PARAM_INVALID, a value is out of its range, or a handle is not valid. Functions may be called from any
 * thread; a handle must not be used while another thread closes or destroys it. In a forked child, mapped readers can
 * be used, and feeds cannot.
 */
#ifndef CANNON_FEED_H
#define CANNON_FEED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "acl/acl_rt.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Handle of a reader, from cannon_reader_open(). */
typedef struct cannon_reader cannon_reader;

/** Handle of a feed, from cannon_feed_create(). */
typedef struct cannon_feed cannon_feed;

/** How records lie in files. */
typedef enum cannonReaderFormat {
  CANNON_READER_FIXED = 0,    /**< Each file has a header and then records of `record_bytes` bytes. */
  CANNON_READER_INDEXED = 1,  /**< A second file has the offset of each record, and of the end of the last one, as
                                   little-endian uint64_t. */
  CANNON_READER_FILES = 2,    /**< Each file is a record. It is opened and read when the record is used. */
  CANNON_READER_PREFIXED = 3, /**< Before each record stands its length: `prefix_bytes` bytes, little-endian. */
  CANNON_READER_TFRECORD = 4, /**< TensorFlow's TFRecord files. The checksums of lengths are verified. */
} cannonReaderFormat;

/** What a reader reads. All but `format`, `paths` and `n_paths` may be 0. The strings stay the caller's. */
typedef struct cannon_reader_config {
  cannonReaderFormat format;  /**< How records lie in the files. */
  const char *const *paths;   /**< The files; their records are numbered in the order of the files. */
  size_t n_paths;             /**< Number of files, 1 or more. */
  const char *const *indexes; /**< CANNON_READER_INDEXED: the file of offsets of each file. */
  uint64_t record_bytes;      /**< CANNON_READER_FIXED: bytes of a record, 1 or more. */
  uint64_t header_bytes;      /**< CANNON_READER_FIXED: bytes before the first record of each file. */
  uint32_t prefix_bytes;      /**< CANNON_READER_PREFIXED: 2, 4 or 8. */
  /** Read in order instead of mapping: pipes, terminals, other files that cannot be mapped. Not for
   * CANNON_READER_INDEXED and CANNON_READER_FILES. Records are then counted from 0 in the order in which they come. */
  bool streamed;
  bool gzip; /**< The files are compressed by gzip; implies `streamed`. */
} cannon_reader_config;

/** As a number of records: not known before the end, because the reader is streamed. */
#define CANNON_READER_UNKNOWN UINT64_MAX

/** Opens files. Mapped files may be larger than memory, and only pages that are used now take memory. Files with
 * lengths (CANNON_READER_PREFIXED, CANNON_READER_TFRECORD) are read through once for the offsets of their records,
 * which take 8 bytes each. A file that is cut short while it is open gives an error for the records that are gone.
 * Needs no device.
 *
 * \param reader  Receives the handle; the caller closes it by cannon_reader_close().
 * \param config  What to read.
 * \return ACL_SUCCESS; ACL_ERROR_RT_PARAM_INVALID if a file cannot be opened or mapped, or has not the format;
 *     ACL_ERROR_FAILURE if a length or offset in it is wrong; ACL_ERROR_BAD_ALLOC.
 */
ACL_FUNC_VISIBILITY aclError cannon_reader_open(cannon_reader **reader, const cannon_reader_config *config);

/** Tells how many records there are.
 *
 * \param reader  Handle of the reader.
 * \param count   Receives the number, or CANNON_READER_UNKNOWN if the reader is streamed.
 * \return ACL_SUCCESS or an error.
 */
ACL_FUNC_VISIBILITY aclError cannon_reader_count(cannon_reader *reader, uint64_t *count);

/** Copies a record of a reader that is not streamed into memory of the caller.
 *
 * \param reader    Handle of the reader.
 * \param number    Number of the record, from 0.
 * \param buffer    Receives the record; may be NULL if capacity is 0.
 * \param capacity  Bytes that fit in the buffer.
 * \param bytes     Receives the bytes that the record has. If that is more than capacity, nothing is copied.
 * \return ACL_SUCCESS, or ACL_ERROR_FAILURE if the record is not in its file.
 */
ACL_FUNC_VISIBILITY aclError cannon_reader_read(cannon_reader *reader, uint64_t number, void *buffer, size_t capacity,
                                                size_t *bytes);

/** Closes a reader. The handle must not be used afterwards; feeds that use the reader go on.
 *
 * \param reader  Handle of the reader.
 * \return ACL_SUCCESS or an error.
 */
ACL_FUNC_VISIBILITY aclError cannon_reader_close(cannon_reader *reader);

/** A record, as a decoder gets it. Everything is valid until the decoder returns. */
typedef struct cannon_feed_record {
  uint64_t number;  /**< Number of the record in its reader. */
  uint64_t epoch;   /**< Epoch, from 0. */
  uint64_t random;  /**< A random number that depends on the seed, the epoch and the record's number alone. */
  const void *data; /**< The record: in the mapping of its file, if that is mapped. Read only, at any alignment. */
  size_t bytes;     /**< Bytes of the record. */
  const char *file; /**< Name of the file, as it was given to the reader. */
} cannon_feed_record;

/** Decodes a record; called by the feed's threads, several at a time. It may block; cannon_feed_stop() tells it to end.
 * It must not destroy the feed.
 *
 * \param argument  The argument of the configuration.
 * \param record    The record.
 * \param fields    For each field of the batch, where the record's part of it goes: as many bytes as the field has.
 * \return 0, or another number, with which the feed ends in an error that names the record.
 */
typedef int (*cannonFeedDecode)(void *argument, const cannon_feed_record *record, void *const *fields);

/** Most fields of a batch. */
#define CANNON_FEED_MAX_FIELDS 16

/** Properties of a feed. cannon_feed_default_config() returns the defaults. */
typedef struct cannon_feed_config {
  const char *name; /**< For reports: 1 to 31 characters. Default: "feed". */
  uint32_t batch;   /**< Records in a batch, 1 (default) or more. */
  uint32_t ahead;   /**< Batches that are prepared while one is in use: 1 to 1024. Default: 2. */
  uint32_t workers; /**< Threads that decode: 1 to 256. Default: 2. Copies from mappings take one. */
  bool shuffle;     /**< Whether records come in random order. Default: false. */
  bool drop_last;   /**< Whether an epoch's last batch is left out if it is not full. Default: false. */
  uint64_t seed;    /**< Of the order. Each epoch has another order. */
  uint64_t block;   /**< Consecutive records that stay together when records are shuffled or shared. Default: 1. */
  uint32_t window;  /**< For a streamed reader: how many records an order is made of. Default: 1024. */
  uint64_t epochs;  /**< How often the records are read; 0: without end. Default: 1. */
  uint32_t rank;    /**< Number of this process among `n_ranks`, which get different records. Default: 0. */
  uint32_t n_ranks; /**< Default: 1. Each rank gets the same number of records; those that are left over are left
                          out, other ones in each epoch if they are shuffled. */
  const uint64_t *field_bytes; /**< Bytes of each field, for one record. NULL (default): one field, the record. */
  size_t n_fields;             /**< Number of fields, 1 to CANNON_FEED_MAX_FIELDS, or 0 (default) without them. */
  /** NULL (default): the field is the record itself, all of the same size. Records of mapped files are then copied from
   * the mapping to the device, with no other copy. */
  cannonFeedDecode decode;
  void *argument; /**< First argument of decode. */
  /** Batches stay in the mapping, which is registered for the device, and nothing is copied (default: false). The
   * reader has one mapped file with records of the same size, there is no decoder, and the records of a batch lie side
   * by side: `block` is a multiple of `batch`, unless the records are neither shuffled nor shared. The program must not
   * write to such a batch. */
  bool in_place;
} cannon_feed_config;

/** Returns the default properties.
 * \return Properties to modify and pass to cannon_feed_create().
 */
ACL_FUNC_VISIBILITY cannon_feed_config cannon_feed_default_config(void);

/** Creates a feed on the device of the current context. Its threads begin to work at once. Needs (ahead + 1) times the
 * bytes of a batch as memory of the device; with a decoder or a streamed reader also as pinned memory.
 *
 * \param feed    Receives the handle; the caller destroys it by cannon_feed_destroy().
 * \param reader  The reader. A streamed reader feeds one feed at a time.
 * \param config  Properties. What it points to stays the caller's and is copied, but for `argument`.
 * \return ACL_SUCCESS; ACL_ERROR_RT_CONTEXT_NULL without a current context; ACL_ERROR_RT_MEMORY_ALLOCATION;
 *     ACL_ERROR_BAD_ALLOC; an error of the reader.
 */
ACL_FUNC_VISIBILITY aclError cannon_feed_create(cannon_feed **feed, cannon_reader *reader,
                                                const cannon_feed_config *config);

/** What cannon_feed_next() has found. */
typedef enum cannonFeedState {
  CANNON_FEED_BATCH = 0,   /**< A batch. */
  CANNON_FEED_END = 1,     /**< All epochs are over. */
  CANNON_FEED_NOT_YET = 2, /**< The time is over; the next batch is still being prepared. */
} cannonFeedState;

/** A batch. */
typedef struct cannon_feed_batch {
  cannonFeedState state;               /**< If it is not CANNON_FEED_BATCH, the other members are 0. */
  uint64_t number;                     /**< Number of the batch in the feed, from 0. */
  uint64_t epoch;                      /**< Epoch of its records. */
  uint32_t count;                      /**< Records in it: less than the feed's `batch` only at the end of an epoch. */
  uint32_t n_fields;                   /**< Number of fields. */
  void *field[CANNON_FEED_MAX_FIELDS]; /**< Device addresses: `count` times the bytes of the field. */
  const uint64_t *records;             /**< The numbers of its records: `count` of them, until the release. */
} cannon_feed_batch;

/** Waits for the next batch, and makes the stream wait until its copy is done. Tasks that are submitted to the stream
 * afterwards may use the batch.
 *
 * \param feed        Handle of the feed.
 * \param stream      The stream that uses the batch; NULL: the default stream of the current context.
 * \param timeout_ms  Milliseconds to wait at most; -1: no limit.
 * \param batch       Receives the batch, which the caller gives back by cannon_feed_release().
 * \return ACL_SUCCESS, also at the end and after the time. ACL_ERROR_FAILURE if a record could not be read or
 *     decoded: the message has its number and file; later calls fail again. ACL_ERROR_RT_PARAM_INVALID also if
 *     all slots are lent, so that no batch could ever come, or the feed was stopped.
 */
ACL_FUNC_VISIBILITY aclError cannon_feed_next(cannon_feed *feed, aclrtStream stream, int32_t timeout_ms,
                                              cannon_feed_batch *batch);

/** Gives a batch back. It is overwritten after the stream has done all tasks that were submitted to it before.
 *
 * \param feed    Handle of the feed.
 * \param batch   Number of the batch (cannon_feed_batch.number).
 * \param stream  The stream whose tasks used the batch last; NULL: the stream that was given to cannon_feed_next(),
 *     which may have been destroyed meanwhile, after its tasks. Needs no current context then.
 * \return ACL_SUCCESS, or ACL_ERROR_RT_PARAM_INVALID if the batch is not lent.
 */
ACL_FUNC_VISIBILITY aclError cannon_feed_release(cannon_feed *feed, uint64_t batch, aclrtStream stream);

/** Stops a feed: no decoder is called any more, and all calls of cannon_feed_next() end with an error. Returns at once.
 *
 * \param feed  Handle of the feed.
 * \return ACL_SUCCESS or an error.
 */
ACL_FUNC_VISIBILITY aclError cannon_feed_stop(cannon_feed *feed);

/** Stops a feed and frees it; the handle must not be used afterwards. Waits until decoders that run have returned, and
 * until the copies of batches that were lent are done; other copies are dropped. The memory of batches that are still
 * lent is freed as by aclrtFree(): tasks that were submitted before may still use it. Batches in place have no such
 * memory: the call waits for all tasks that were submitted to the streams of batches that are lent.
 *
 * \param feed  Handle of the feed.
 * \return ACL_SUCCESS or an error.
 */
ACL_FUNC_VISIBILITY aclError cannon_feed_destroy(cannon_feed *feed);

/** What a feed has done so far. Times are sums over threads. */
typedef struct cannon_feed_stats {
  uint64_t n_batches;    /**< Batches that were lent. */
  uint64_t n_records;    /**< Records that were read. */
  uint64_t record_bytes; /**< Bytes of these records. */
  uint64_t decode_ns;    /**< Time in which threads read and decoded, copies from mappings included. */
  uint64_t full_ns;      /**< Time in which threads waited because all slots were full or lent. */
  uint64_t host_ns;      /**< Time that cannon_feed_next() has waited. */
  /** Time for which the streams of cannon_feed_next() waited for data. Counted under `cannon run`, while
   * CANNON_STATS_DIR is set, or while the profiler is on; else 0. */
  uint64_t device_ns;
} cannon_feed_stats;

/** Tells what a feed has done so far.
 *
 * \param feed   Handle of the feed.
 * \param stats  Receives the figures.
 * \return ACL_SUCCESS or an error.
 */
ACL_FUNC_VISIBILITY aclError cannon_feed_get_stats(cannon_feed *feed, cannon_feed_stats *stats);

/** Handle of a meter, from cannon_meter_create(). */
typedef struct cannon_meter cannon_meter;

/** Creates a meter, for programs that bring data to the device without a feed: it counts how long streams wait for that
 * data, for the summary of `cannon run` and the profiler, as a feed does. The calls below cost a few loads while nobody
 * wants to know.
 *
 * \param meter  Receives the handle; the caller destroys it by cannon_meter_destroy().
 * \param name   For reports: 1 to 31 characters.
 * \return ACL_SUCCESS; ACL_ERROR_RT_CONTEXT_NULL without a current context; ACL_ERROR_BAD_ALLOC.
 */
ACL_FUNC_VISIBILITY aclError cannon_meter_create(cannon_meter **meter, const char *name);

/** Tells that the program asks for a batch, which the stream will use.
 *
 * \param meter   Handle of the meter.
 * \param stream  The stream; NULL: the default stream of the current context.
 * \return ACL_SUCCESS or an error.
 */
ACL_FUNC_VISIBILITY aclError cannon_meter_ask(cannon_meter *meter, aclrtStream stream);

/** Tells that the stream got the batch: the program has submitted the wait for it. The stream has waited from the
 * moment at which it came to cannon_meter_ask() until it has come here.
 *
 * \param meter    Handle of the meter.
 * \param stream   The stream that was given to cannon_meter_ask().
 * \param records  Records in the batch, to be counted.
 * \param bytes    Bytes of the batch, to be counted.
 * \return ACL_SUCCESS or an error.
 */
ACL_FUNC_VISIBILITY aclError cannon_meter_got(cannon_meter *meter, aclrtStream stream, uint64_t records,
                                              uint64_t bytes);

/** Destroys a meter. The handle must not be used afterwards.
 *
 * \param meter  Handle of the meter.
 * \return ACL_SUCCESS or an error.
 */
ACL_FUNC_VISIBILITY aclError cannon_meter_destroy(cannon_meter *meter);

#ifdef __cplusplus
}
#endif

#endif
