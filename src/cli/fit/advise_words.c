/* SPDX-License-Identifier: Apache-2.0 */
/* Plans in words, and what they mean for the program's lines. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/text_append.h"
#include "cli/figures.h"
#include "cli/fit/advise_report.h"
#include "fit/must_alloc.h"

static const char *words_link(const advice *a, uint32_t link) {
  return a->model->history->modules[a->model->links[link].module].name;
}

static void words_of_links(const advice *a, const uint32_t *group, char *text, size_t room) {
  const uint32_t n = a->model->n_links;
  const char *before = " ";
  for (uint32_t from = 0, to; from < n; from = to) {
    for (to = from + 1; to < n && !group[from] == !group[to];) ++to;
    if (!group[from]) continue;
    text_append(text, room, "%s%s", before, format_text(words_link(a, from)));
    if (to - from > 1)
      text_append(text, room, "%s%s", to - from > 2 ? " to " : ", ", format_text(words_link(a, to - 1)));
    before = ", ";
  }
  if (*before == ' ') text_append(text, room, " nothing");
}

void advise_plan_words(const advise_report *r, const advise_plan *p, char *text, size_t room) {
  static const char *const storage[] = {"", "amp, ", "16 bits for all, "};
  static const char *const attention[] = {"", "chunked attention, ", "flash attention, "};
  *text = '\0';
  text_append(text, room, "%s%s", storage[p->storage], attention[p->attention]);
  if (p->micro_batches > 1) text_append(text, room, "%u micro-batches, ", p->micro_batches);
  if (p->zero) text_append(text, room, "ZeRO %u on %u devices, ", p->zero, r->advice->devices);
  if (p->offload && p->n_moved) text_append(text, room, "offload of %u blocks, ", p->n_moved);
  if (p->recompute == RECOMPUTE_ALL) text_append(text, room, "recompute all, ");
  if (p->recompute == RECOMPUTE_SQRT) text_append(text, room, "recompute groups of the square root, ");
  if (p->recompute == RECOMPUTE_CHOSEN && p->group) {
    text_append(text, room, "recompute");
    words_of_links(r->advice, p->group, text, room);
    text_append(text, room, ", ");
  }
  size_t n = strlen(text);
  if (n > 2) text[n -= 2] = '\0';
  if (!n) text_append(text, room, p->prune ? "free what nothing reads" : "as it is");
}

static const char *words_place(const history_line *l, char *text, size_t room) {
  if (!l || !l->line)
    snprintf(text, room, "(line not recorded)");
  else
    snprintf(text, room, "%s:%u", format_text(l->file), l->line);
  return text;
}

static bool words_same_line(const history_line *a, const history_line *b) {
  return a == b || (a && b && a->line == b->line && strcmp(a->file, b->file) == 0);
}

/* Whether link k is recomputed by itself, and not in a group with its neighbours. */
static bool words_is_alone(const advise_plan *p, uint32_t n_links, uint32_t k) {
  return p->group[k] && (!k || p->group[k - 1] != p->group[k]) && (k + 1 == n_links || p->group[k + 1] != p->group[k]);
}

/* Tells of link `first` and of all later ones that the same line of the program calls, such as the layers of a loop.
 * All are recomputed one by one. called: the line of each link; together: room for all links. */
static void tell_single_links(const advice *a, const advise_plan *p, const history_line **called, uint32_t *together,
                              bool *is_told, uint32_t first, void (*tell)(void *, const char *), void *to) {
  const uint32_t n = a->model->n_links;
  char line[4096], place[1100], links[2048] = "";
  memset(together, 0, n * sizeof *together);
  for (uint32_t k = first; k < n; ++k)
    if (words_is_alone(p, n, k) && words_same_line(called[first], called[k])) together[k] = is_told[k] = true;
  words_of_links(a, together, links, sizeof links);
  snprintf(line, sizeof line, "%s: call%s by torch.utils.checkpoint.checkpoint(module, ..., use_reentrant=False)",
           words_place(called[first], place, sizeof place), links);
  tell(to, line);
}

static void steps_of_links(const advise_report *r, const advise_plan *p, void (*tell)(void *, const char *), void *to) {
  const advice *a = r->advice;
  const uint32_t n = a->model->n_links;
  char line[2048], place[1100];
  uint32_t *together = must_alloc(n, sizeof *together);
  bool *is_told = must_alloc(n, sizeof *is_told);
  const history_line **called = must_alloc(n, sizeof *called);
  for (uint32_t k = 0; p->group && k < n; ++k) called[k] = advise_link_line(a->model, k);
  for (uint32_t k = 0, end; p->group && k < n; k = end) {
    end = k + 1;
    if (!p->group[k] || is_told[k]) continue;
    if (words_is_alone(p, n, k)) {
      tell_single_links(a, p, called, together, is_told, k, tell, to);
      continue;
    }
    while (end < n && p->group[end] == p->group[k]) ++end;
    snprintf(line, sizeof line,
             "%s: call %s to %s as one by torch.utils.checkpoint.checkpoint(..., use_reentrant=False)",
             words_place(called[k], place, sizeof place), format_text(words_link(a, k)),
             format_text(words_link(a, end - 1)));
    tell(to, line);
  }
  free(called);
  free(is_told);
  free(together);
}

static const history_line *words_idle_line(const advice *a, uint32_t item) {
  const history *h = a->model->history;
  return advise_site_line(h, h->blocks[a->model->items[item].block].site);
}

static void steps_of_idle(const advise_report *r, void (*tell)(void *, const char *), void *to) {
  const advice *a = r->advice;
  size_t n;
  uint32_t *idle = advice_idle(a, &n);
  unsigned told = 0;
  for (size_t i = 0; idle && i < n && told < r->top; ++i) {
    if (idle[i] == HISTORY_NONE) continue; /* told of with its line */
    const history_line *made = words_idle_line(a, idle[i]);
    uint64_t bytes = 0;
    size_t blocks = 0;
    for (size_t k = i; k < n; ++k) {
      if (idle[k] == HISTORY_NONE || !words_same_line(made, words_idle_line(a, idle[k]))) continue;
      bytes += a->model->items[idle[k]].bytes;
      ++blocks;
      idle[k] = HISTORY_NONE;
    }
    char line[2048], place[1100];
    words_place(made, place, sizeof place);
    snprintf(line, sizeof line,
             "%s: %s made here, %zu block%s, are kept long after their last use: del the tensor, or keep .detach() or "
             ".item() of it",
             place, format_bytes(bytes), blocks, blocks == 1 ? "" : "s");
    tell(to, line);
    ++told;
  }
  free(idle);
}

void advise_plan_steps(const advise_report *r, const advise_plan *p, void (*tell)(void *, const char *), void *to) {
  static const char *const zero[] = {
      "", "the optimizer: torch.distributed.optim.ZeroRedundancyOptimizer (ZeRO 1)",
      "the model: FSDP with ShardingStrategy.SHARD_GRAD_OP (ZeRO 2)",
      "the model: torch.distributed.fsdp.fully_shard() of each of its modules, and of the whole (ZeRO 3)"};
  const advice *a = r->advice;
  char line[2048], place[1100];
  if (p->storage == STORAGE_AMP)
    tell(to, "the forward part and the loss: with torch.autocast('npu', dtype=torch.bfloat16)");
  if (p->storage == STORAGE_HALF) tell(to, "after the model is made: model.bfloat16()");
  if (p->attention != ATTENTION_AS_IS) {
    words_place(advise_site_line(a->model->history, a->attention.site), place, sizeof place);
    if (p->attention == ATTENTION_FLASH)
      snprintf(
          line, sizeof line,
          "%s: torch.nn.functional.scaled_dot_product_attention(q, k, v, ...) in place of the products and softmax",
          place);
    else
      snprintf(line, sizeof line,
               "%s: attention of 1/%u of the queries at a time, each by torch.utils.checkpoint.checkpoint", place,
               a->policy.chunks);
    tell(to, line);
  }
  if (p->micro_batches > 1) {
    snprintf(line, sizeof line,
             "the loop over batches: %u batches of 1/%u of the size, (loss / %u).backward() of each, then one "
             "optimizer.step()",
             p->micro_batches, p->micro_batches, p->micro_batches);
    tell(to, line);
  }
  if (p->zero) tell(to, zero[p->zero]);
  if (p->offload && p->n_moved) {
    snprintf(line, sizeof line,
             "the forward part: with torch.autograd.graph.save_on_cpu(pin_memory=True) around what makes the %u "
             "longest idle activations, %s",
             p->n_moved, format_bytes(p->moved_bytes));
    tell(to, line);
  }
  steps_of_links(r, p, tell, to);
  if (p->prune) steps_of_idle(r, tell, to);
}

uint64_t advise_largest_batch(const advise_report *r) {
  const advice *a = r->advice, *b = r->second;
  if (!r->batch[0]) return 0;
  if (!b || r->batch[0] == r->batch[1]) return (uint64_t)(a->largest_batch * (double)r->batch[0]);
  const double slope = ((double)b->as_is.peak - (double)a->as_is.peak) / ((double)r->batch[1] - (double)r->batch[0]);
  const double fixed = (double)a->as_is.peak - slope * (double)r->batch[0];
  const double most = slope > 0 ? ((double)a->budget - fixed) / slope : 0;
  return most > 0 ? (uint64_t)most : 0;
}
