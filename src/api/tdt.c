/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points for channels and their data sets. Sending copies a data set, with the bytes of its items, into a message
 * (feed/channel.h); receiving hands the message's items over to the receiver's data set. */
#include <stdlib.h>
#include <string.h>

#include "acl/acl_tdt.h"
#include "api/api.h"
#include "api/tdt.h"
#include "base/store/handles.h"
#include "feed/channel.h"
#include "memory/memory.h"
#include "memory/space.h"
#include "runtime/callback.h"
#include "runtime/device.h"

struct acltdtDataItem {
  acltdtTensorType type;
  aclDataType dtype;
  bool received; /* its data set destroys it; its bytes stand behind the dimensions */
  void *data;
  size_t bytes, n_dims;
  int64_t dims[];
};

struct acltdtDataset {
  channel_message message; /* while it is sent */
  char *name;              /* of the channel from which it was received, or NULL */
  size_t n, room;
  bool owns; /* the items were made here. Those that were added may have been destroyed before */
  acltdtDataItem **items;
};

struct acltdtChannelHandle {
  handle h;
  channel_end *end;
};

/* The capacity of channels that are made without one. CANN's is not documented; MindSpore asks for this one. */
enum { DEFAULT_CAPACITY = 128 };

/* ---- items ---- */

/* An item with room for `inside` bytes of data behind its dimensions. NULL: no memory. */
static acltdtDataItem *item_new(acltdtTensorType type, aclDataType dtype, const int64_t *dims, size_t n_dims,
                                size_t inside) {
  acltdtDataItem *item = malloc(sizeof *item + n_dims * sizeof *dims + inside);
  if (!item) return NULL;
  *item = (acltdtDataItem){.type = type, .dtype = dtype, .n_dims = n_dims};
  if (n_dims) memcpy(item->dims, dims, n_dims * sizeof *dims);
  return item;
}

acltdtDataItem *acltdtCreateDataItem(acltdtTensorType tdtType, const int64_t *dims, size_t dimNum, aclDataType dataType,
                                     void *data, size_t size) {
  API_ENTER();
  if ((dimNum && !dims) || (size && !data)) {
    API_RESULT(fail(ST_INVALID_PARAM, "%s is NULL, expected a pointer", data ? "dims" : "data"));
    return NULL;
  }
  if (dimNum > 128) { /* as CANN's page has it */
    API_RESULT(fail(ST_INVALID_PARAM, "dimNum is %zu, expected 128 or less", dimNum));
    return NULL;
  }
  acltdtDataItem *item = item_new(tdtType, dataType, dims, dimNum, 0);
  if (!item) {
    API_RESULT(fail(ST_NO_HOST_MEMORY, "no host memory for a data item"));
    return NULL;
  }
  item->data = data;
  item->bytes = size;
  API_TELL_HANDLE(HOOK_DATA_ITEM, HOOK_HANDLE_CREATED, item);
  return item;
}

aclError acltdtDestroyDataItem(acltdtDataItem *dataItem) {
  API_ENTER();
  NEED(dataItem);
  if (dataItem->received)
    API_RETURN(fail(ST_INVALID_PARAM, "dataItem was received, expected one of acltdtCreateDataItem"));
  API_TELL_HANDLE(HOOK_DATA_ITEM, HOOK_HANDLE_DESTROYED, dataItem);
  free(dataItem);
  return ACL_SUCCESS;
}

acltdtTensorType acltdtGetTensorTypeFromItem(const acltdtDataItem *dataItem) {
  API_ENTER();
  return dataItem ? dataItem->type : ACL_TENSOR_DATA_UNDEFINED;
}

aclDataType acltdtGetDataTypeFromItem(const acltdtDataItem *dataItem) {
  API_ENTER();
  return dataItem ? dataItem->dtype : ACL_DT_UNDEFINED;
}

void *acltdtGetDataAddrFromItem(const acltdtDataItem *dataItem) {
  API_ENTER();
  return dataItem ? dataItem->data : NULL;
}

size_t acltdtGetDataSizeFromItem(const acltdtDataItem *dataItem) {
  API_ENTER();
  return dataItem ? dataItem->bytes : 0;
}

size_t acltdtGetDimNumFromItem(const acltdtDataItem *dataItem) {
  API_ENTER();
  return dataItem ? dataItem->n_dims : 0;
}

aclError acltdtGetDimsFromItem(const acltdtDataItem *dataItem, int64_t *dims, size_t dimNum) {
  API_ENTER();
  NEED(dataItem);
  if (dimNum < dataItem->n_dims)
    API_RETURN(fail(ST_INVALID_PARAM, "dimNum is %zu, expected the item's %zu or more", dimNum, dataItem->n_dims));
  if (!dataItem->n_dims) return ACL_SUCCESS;
  NEED(dims);
  memcpy(dims, dataItem->dims, dataItem->n_dims * sizeof *dims);
  return ACL_SUCCESS;
}

/* Tensors are never cut. */
aclError acltdtGetSliceInfoFromItem(const acltdtDataItem *dataItem, size_t *sliceNum, size_t *sliceId) {
  API_ENTER();
  NEED(dataItem);
  NEED(sliceNum);
  NEED(sliceId);
  *sliceNum = 1;
  *sliceId = 0;
  return ACL_SUCCESS;
}

/* ---- data sets ---- */

static void dataset_free(acltdtDataset *d) {
  for (size_t i = 0; d->owns && i < d->n; ++i) free(d->items[i]);
  free(d->items);
  free(d->name);
  free(d);
}

static void dataset_drop(channel_message *m) { dataset_free((acltdtDataset *)m); }

acltdtDataset *acltdtCreateDataset(void) {
  API_ENTER();
  acltdtDataset *d = calloc(1, sizeof *d);
  if (!d) API_RESULT(fail(ST_NO_HOST_MEMORY, "no host memory for a data set"));
  API_TELL_HANDLE(HOOK_TDT_DATASET, HOOK_HANDLE_CREATED, d);
  return d;
}

aclError acltdtDestroyDataset(acltdtDataset *dataset) {
  API_ENTER();
  NEED(dataset);
  API_TELL_HANDLE(HOOK_TDT_DATASET, HOOK_HANDLE_DESTROYED, dataset);
  dataset_free(dataset);
  return ACL_SUCCESS;
}

static status dataset_add(acltdtDataset *d, acltdtDataItem *item) {
  if (d->n == d->room) {
    const size_t room = d->room ? 2 * d->room : 4;
    acltdtDataItem **larger = realloc(d->items, room * sizeof *larger);
    if (!larger) return fail(ST_NO_HOST_MEMORY, "no host memory for %zu items of a data set", room);
    d->items = larger;
    d->room = room;
  }
  d->items[d->n++] = item;
  return ST_OK;
}

aclError acltdtAddDataItem(acltdtDataset *dataset, acltdtDataItem *dataItem) {
  API_ENTER();
  NEED(dataset);
  NEED(dataItem);
  if (dataset->name || dataItem->received)
    API_RETURN(fail(ST_INVALID_PARAM, "%s was received, expected one that was created",
                    dataset->name ? "dataset" : "dataItem"));
  API_RETURN(dataset_add(dataset, dataItem));
}

acltdtDataItem *acltdtGetDataItem(const acltdtDataset *dataset, size_t index) {
  API_ENTER();
  if (!dataset || index >= dataset->n) {
    API_RESULT(fail(ST_INVALID_PARAM, "index is %zu, expected less than the data set's %zu items", index,
                    dataset ? dataset->n : 0));
    return NULL;
  }
  return dataset->items[index];
}

size_t acltdtGetDatasetSize(const acltdtDataset *dataset) {
  API_ENTER();
  return dataset ? dataset->n : 0;
}

const char *acltdtGetDatasetName(const acltdtDataset *dataset) {
  API_ENTER();
  return dataset && dataset->name ? dataset->name : "";
}

/* ---- channels ---- */

static acltdtChannelHandle *tdt_open(int64_t device, const char *name, size_t capacity) {
  acltdtChannelHandle *made = NULL;
  channel_end *end = NULL;
  status st = device_check(device, "deviceId");
  if (st == ST_OK && !(name && *name)) st = fail(ST_INVALID_PARAM, "name is NULL or empty, expected a name");
  if (st == ST_OK && !capacity) st = fail(ST_INVALID_PARAM, "capacity is 0, expected 1 or more");
  if (st == ST_OK) st = channel_open((int)device, name, capacity, &end);
  if (st == ST_OK && !(made = handle_new(HANDLE_CHANNEL, sizeof *made))) {
    channel_close(end);
    st = fail(ST_NO_HOST_MEMORY, "no host memory for a channel's handle");
  }
  if (made) made->end = end;
  if (st != ST_OK)
    error_publish(st, "acltdtCreateChannel");
  else
    hooks_tell_handle(HOOK_CHANNEL, HOOK_HANDLE_CREATED, made, "acltdtCreateChannel");
  return made;
}

acltdtChannelHandle *acltdtCreateChannel(uint32_t deviceId, const char *name) {
  API_ENTER();
  return tdt_open(deviceId, name, DEFAULT_CAPACITY);
}

acltdtChannelHandle *acltdtCreateChannelWithCapacity(uint32_t deviceId, const char *name, size_t capacity) {
  API_ENTER();
  return tdt_open(deviceId, name, capacity);
}

static status tdt_end(const acltdtChannelHandle *given, channel_end **out) {
  const acltdtChannelHandle *live = handle_live(HANDLE_CHANNEL, given);
  *out = live ? live->end : NULL;
  if (live) return ST_OK;
  hooks_tell_handle(HOOK_CHANNEL, HOOK_HANDLE_REFUSED, given, NULL);
  return fail(ST_INVALID_PARAM, "handle %p is no channel (destroyed?)", (const void *)given);
}

aclError acltdtStopChannel(acltdtChannelHandle *handle) {
  API_ENTER();
  channel_end *end;
  NEED(handle);
  NEED_OK(tdt_end(handle, &end));
  channel_stop(end);
  return ACL_SUCCESS;
}

aclError acltdtDestroyChannel(acltdtChannelHandle *handle) {
  API_ENTER();
  channel_end *end;
  NEED(handle);
  NEED_OK(tdt_end(handle, &end));
  API_TELL_HANDLE(HOOK_CHANNEL, HOOK_HANDLE_DESTROYED, handle);
  handle_free(HANDLE_CHANNEL, handle);
  channel_close(end);
  return ACL_SUCCESS;
}

/* A copy of the data set that owns its items and their bytes. */
static status dataset_copy(const acltdtDataset *from, acltdtDataset **out) {
  acltdtDataset *copy = calloc(1, sizeof *copy);
  if (copy) copy->owns = true;
  status st = copy ? ST_OK : fail(ST_NO_HOST_MEMORY, "no host memory for a data set");
  for (size_t i = 0; st == ST_OK && i < from->n; ++i) {
    const acltdtDataItem *item = from->items[i];
    const int device = space_device_of((uintptr_t)item->data);
    if (item->bytes && device >= 0) {
      st = fail(ST_INVALID_PARAM, "the data of item %zu is memory of device %d, expected host memory", i, device);
      break;
    }
    acltdtDataItem *twin = item_new(item->type, item->dtype, item->dims, item->n_dims, item->bytes);
    st = twin ? dataset_add(copy, twin) : fail(ST_NO_HOST_MEMORY, "no host memory for %zu bytes", item->bytes);
    if (st != ST_OK) {
      free(twin);
      break;
    }
    twin->received = true;
    twin->bytes = item->bytes;
    twin->data = item->bytes ? memcpy(twin->dims + twin->n_dims, item->data, item->bytes) : NULL;
  }
  if (st != ST_OK && copy) dataset_free(copy);
  if (st == ST_OK) *out = copy;
  return st;
}

/* A full or an empty channel is no failure to report: programs poll. */
#define RETURN_UNLESS_BUSY(st)                                                                                         \
  do {                                                                                                                 \
    const status st_ = (st);                                                                                           \
    if (st_ == ST_QUEUE_FULL || st_ == ST_QUEUE_EMPTY) return st_;                                                     \
    API_RETURN(st_);                                                                                                   \
  } while (0)

aclError acltdtSendTensor(const acltdtChannelHandle *handle, const acltdtDataset *dataset, int32_t timeout) {
  API_ENTER();
  acltdtDataset *copy;
  channel_end *end;
  NEED(handle);
  NEED(dataset);
  NEED_OK(tdt_end(handle, &end));
  NEED_OK(dataset_copy(dataset, &copy));
  copy->message.destroy = dataset_drop;
  const status st = channel_send(end, &copy->message, timeout);
  if (st != ST_OK) dataset_free(copy);
  RETURN_UNLESS_BUSY(st);
}

aclError acltdtReceiveTensor(const acltdtChannelHandle *handle, acltdtDataset *dataset, int32_t timeout) {
  API_ENTER();
  channel_message *message;
  channel_end *end;
  NEED(handle);
  NEED(dataset);
  NEED_OK(tdt_end(handle, &end));
  if (dataset->n) API_RETURN(fail(ST_INVALID_PARAM, "dataset has %zu items, expected an empty one", dataset->n));
  char *name = strdup(channel_name(end));
  if (!name) API_RETURN(fail(ST_NO_HOST_MEMORY, "no host memory for a channel's name"));
  const status st = channel_receive(end, timeout, &message);
  if (st == ST_OK) {
    acltdtDataset *sent = (acltdtDataset *)message;
    const acltdtDataset empty = *dataset;
    *dataset = (acltdtDataset){.name = name, .owns = true, .n = sent->n, .room = sent->room, .items = sent->items};
    name = empty.name;
    free(empty.items);
    free(sent);
  }
  free(name);
  RETURN_UNLESS_BUSY(st);
}

aclError acltdtQueryChannelSize(const acltdtChannelHandle *handle, size_t *size) {
  API_ENTER();
  channel_end *end;
  NEED(handle);
  NEED(size);
  NEED_OK(tdt_end(handle, &end));
  *size = channel_size(end);
  return ACL_SUCCESS;
}

aclError acltdtCleanChannel(acltdtChannelHandle *handle) {
  API_ENTER();
  channel_end *end;
  NEED(handle);
  NEED_OK(tdt_end(handle, &end));
  channel_clean(end);
  return ACL_SUCCESS;
}

/* ---- GetNext ----------------------------------------------------------------------------------------------------- */

/* As long as a stream waits for a data set. Programs that prepare data for longer have stopped. */
enum { GET_NEXT_MS = 15 * 60 * 1000 };

typedef struct {
  channel_end *end;
  int n;
  struct {
    void *to;
    size_t bytes;
  } out[];
} get_next;

static status get_next_store(const get_next *g, const acltdtDataset *d) {
  if (d->n < (size_t)g->n)
    return fail(ST_FAILURE, "channel %s sent %zu items, expected %d: the data have ended", channel_name(g->end), d->n,
                g->n);
  for (int i = 0; i < g->n; ++i) {
    const acltdtDataItem *item = d->items[i];
    void *view;
    if (item->bytes > g->out[i].bytes)
      return fail(ST_INVALID_PARAM, "item %d of channel %s has %zu bytes, expected up to the output's %zu", i,
                  channel_name(g->end), item->bytes, g->out[i].bytes);
    TRY(memory_view(g->out[i].to, item->bytes, VMM_WRITE, "output", &view));
    if (item->bytes) memcpy(view, item->data, item->bytes);
  }
  return ST_OK;
}

static status get_next_run(void *argument, bool dropped) {
  get_next *g = argument;
  channel_message *message;
  status st = dropped ? ST_OK : channel_receive(g->end, GET_NEXT_MS, &message);
  if (!dropped && st == ST_OK) {
    st = get_next_store(g, (acltdtDataset *)message);
    message->destroy(message);
  } else if (st != ST_OK) {
    st = fail(st, "channel %s sent nothing for %d s", channel_name(g->end), GET_NEXT_MS / 1000);
  }
  channel_close(g->end);
  free(g);
  return st;
}

status tdt_get_next(const aclop_call *c, stream *s) {
  const attr_value *name = attributes_find(c->attributes, "channel_name");
  if (!name || name->kind != ATTR_STRING)
    return fail(c->refusal, "GetNext: attribute channel_name is missing, expected a string");
  get_next *g = malloc(sizeof *g + (size_t)c->n_outputs * sizeof g->out[0]);
  if (!g) return fail(ST_NO_HOST_MEMORY, "no host memory for GetNext");
  g->n = c->n_outputs;
  for (int i = 0; i < g->n; ++i) {
    g->out[i].to = c->outputs[i].data;
    g->out[i].bytes = c->outputs[i].bytes;
  }
  status st = channel_open(s->device, name->value.string, DEFAULT_CAPACITY, &g->end);
  if (st != ST_OK) {
    free(g);
    return st;
  }
  st = library_function_submit(s, get_next_run, g);
  if (st != ST_OK) (void)get_next_run(g, true);
  return st;
}
