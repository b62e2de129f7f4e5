/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules of collectives (comm/schedule/schedule.h): all ranks' steps are interpreted on arrays of integers, for
 * every kind and algorithm and 1 to 17 ranks. Contributions are chosen so that a wrong, missing or doubled one changes
 * the result. */
#include "comm/schedule/schedule.h"

#include "unit.h"

enum { MAX_RANKS = 24, MAX_SLICES = MAX_RANKS * SCHEDULE_MAX_CHUNKS, SCRATCH_SLICES = 2 * MAX_SLICES };
static const int64_t UNSET = INT64_MIN; /* no step may read it */

/* One rank: a number stands for a slice. */
typedef struct {
  schedule s;
  int64_t memory[SCHEDULE_N_BUFFERS][SCRATCH_SLICES];
  uint32_t at; /* the next step */
} rank_state;

static rank_state ranks[MAX_RANKS];
static bool in_place; /* the send buffer is the receive buffer */

static int64_t *slices_of(rank_state *r, unsigned buffer) {
  return r->memory[in_place && buffer == SCHEDULE_SEND_BUFFER ? SCHEDULE_RECEIVE_BUFFER : buffer];
}

/* ---- interpreter ------------------------------------------------------------------------------------------------- */

static void assert_known(const int64_t *from, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) assert_int_not_equal(from[i], UNSET);
}

static void run_local(rank_state *r, const schedule_step *t) {
  int64_t *to = slices_of(r, t->to_buffer) + t->to;
  const int64_t *from = slices_of(r, t->from_buffer) + t->from;
  assert_known(from, t->count * (t->n_in ? t->n_in : 1));
  if (t->action == SCHEDULE_COPY) {
    memmove(to, from, t->count * sizeof *to);
    return;
  }
  assert_true(t->own_at <= t->n_in && t->n_in > 0);
  assert_known(to, t->count);
  for (uint32_t i = 0; i < t->n_in; ++i)
    for (uint32_t k = 0; k < t->count; ++k) to[k] += from[i * t->count + k];
}

static const schedule_step *find_message(const rank_state *sender, uint32_t receiver, const schedule_step *receive) {
  const schedule_step *found = NULL;
  for (const schedule_step *t = sender->s.step; t < sender->s.step + sender->s.n_steps; ++t) {
    if (t->action != SCHEDULE_SEND || t->peer != receiver || t->round != receive->round || t->part != receive->part)
      continue;
    assert_null(found); /* the message's identity is unique */
    found = t;
  }
  return found;
}

/* Moves the messages of a round: all are read before any is written, as if all arrived at the very end. No message is
 * written where another step of the round reads or writes. */
static void run_messages(uint32_t n, uint32_t round) {
  static int64_t data[MAX_RANKS][SCRATCH_SLICES];
  for (uint32_t r = 0; r < n; ++r) {
    uint32_t used = 0;
    for (uint32_t i = ranks[r].at; i < ranks[r].s.n_steps; ++i) {
      const schedule_step *t = &ranks[r].s.step[i];
      if (t->round != round || t->action <= SCHEDULE_REDUCE) break;
      if (t->action != SCHEDULE_RECEIVE) continue;
      const schedule_step *m = find_message(&ranks[t->peer], r, t);
      assert_non_null(m);
      assert_int_equal(m->count, t->count);
      assert_int_equal(m->level, t->level);
      assert_known(slices_of(&ranks[t->peer], m->from_buffer) + m->from, m->count);
      memcpy(data[r] + used, slices_of(&ranks[t->peer], m->from_buffer) + m->from, m->count * sizeof **data);
      used += m->count;
    }
  }
  for (uint32_t r = 0; r < n; ++r) {
    uint32_t used = 0;
    const schedule *s = &ranks[r].s;
    for (; ranks[r].at < s->n_steps; ++ranks[r].at) {
      const schedule_step *t = &s->step[ranks[r].at];
      if (t->round != round || t->action <= SCHEDULE_REDUCE) break;
      if (t->action != SCHEDULE_RECEIVE) continue;
      memcpy(slices_of(&ranks[r], t->to_buffer) + t->to, data[r] + used, t->count * sizeof **data);
      used += t->count;
    }
  }
}

static bool overlaps(uint32_t a, uint32_t n_a, uint32_t b, uint32_t n_b) { return a < b + n_b && b < a + n_a; }

/* Within a round no two messages of a rank touch the same slices, unless both only read them. */
static void assert_messages_are_independent(const schedule *s) {
  for (uint32_t i = 0; i < s->n_steps; ++i) {
    const schedule_step *a = &s->step[i];
    if (a->action != SCHEDULE_RECEIVE) continue;
    for (uint32_t k = 0; k < s->n_steps; ++k) {
      const schedule_step *b = &s->step[k];
      if (k == i || b->round != a->round || b->action <= SCHEDULE_REDUCE) continue;
      const bool receives = b->action == SCHEDULE_RECEIVE;
      if (a->to_buffer == (receives ? b->to_buffer : b->from_buffer))
        assert_false(overlaps(a->to, a->count, receives ? b->to : b->from, b->count));
    }
  }
}

/* Runs all ranks. Counts that sends and receives are equally many, so that each wait has its put and the other way
 * around. */
static void run_all(const schedule_spec *spec, uint32_t n) {
  uint32_t n_rounds = 0, n_sends = 0, n_receives = 0;
  for (uint32_t r = 0; r < n; ++r) {
    assert_int_equal(schedule_build(spec, r, &ranks[r].s), ST_OK);
    ranks[r].at = 0;
    if (ranks[r].s.n_rounds > n_rounds) n_rounds = ranks[r].s.n_rounds;
    for (uint32_t i = 0; i < ranks[r].s.n_steps; ++i) {
      const schedule_step *t = &ranks[r].s.step[i];
      n_sends += t->action == SCHEDULE_SEND;
      n_receives += t->action == SCHEDULE_RECEIVE;
      assert_true(t->count > 0);
      assert_true(t->action <= SCHEDULE_REDUCE || (t->peer < n && t->peer != r));
    }
    for (unsigned b = 0; b < SCHEDULE_N_BUFFERS; ++b) assert_true(ranks[r].s.n_slices[b] <= SCRATCH_SLICES);
    if (n <= 9) assert_messages_are_independent(&ranks[r].s);
  }
  assert_int_equal(n_sends, n_receives);
  for (uint32_t round = 0; round < n_rounds; ++round) {
    run_messages(n, round);
    for (uint32_t r = 0; r < n; ++r) {
      const schedule *s = &ranks[r].s;
      for (; ranks[r].at < s->n_steps && s->step[ranks[r].at].round == round; ++ranks[r].at)
        run_local(&ranks[r], &s->step[ranks[r].at]);
    }
  }
  for (uint32_t r = 0; r < n; ++r) assert_int_equal(ranks[r].at, ranks[r].s.n_steps);
}

static void free_all(uint32_t n) {
  for (uint32_t r = 0; r < n; ++r) schedule_free(&ranks[r].s);
}

/* ---- what must come out ------------------------------------------------------------------------------------------ */

/* Rank r's slice i. Sums of different sets of ranks differ: each rank has two bits of its own. */
static int64_t given(uint32_t r, uint32_t i) { return ((int64_t)1 << 2 * r) + ((int64_t)i << 50); }

static int64_t sum_of(uint32_t n, uint32_t i) {
  int64_t sum = 0;
  for (uint32_t r = 0; r < n; ++r) sum += given(r, i);
  return sum;
}

static bool reads_whole(comm_kind k) { return k != COMM_ALL_GATHER && k != COMM_ALL_GATHER_V && k != COMM_SEND; }

static void fill(const schedule_spec *spec, uint32_t n) {
  const uint32_t whole = schedule_whole_slices(spec);
  for (uint32_t r = 0; r < n; ++r) {
    for (unsigned b = 0; b < SCHEDULE_N_BUFFERS; ++b)
      for (uint32_t i = 0; i < SCRATCH_SLICES; ++i) ranks[r].memory[b][i] = UNSET;
    const bool is_broadcast = spec->kind == COMM_BROADCAST;
    if ((is_broadcast || spec->kind == COMM_SCATTER) && r != spec->root) continue;
    int64_t *to = slices_of(&ranks[r], is_broadcast ? SCHEDULE_RECEIVE_BUFFER : SCHEDULE_SEND_BUFFER);
    for (uint32_t i = 0; i < (reads_whole(spec->kind) ? whole : 1); ++i) to[i] = given(r, i);
  }
}

/* The value that slice i of rank r's receive buffer must have; UNSET: it must not be touched. */
static int64_t expected(const schedule_spec *spec, uint32_t n, uint32_t r, uint32_t i) {
  const uint32_t whole = schedule_whole_slices(spec);
  switch (spec->kind) {
  case COMM_ALL_REDUCE: return i < whole ? sum_of(n, i) : UNSET;
  case COMM_REDUCE: return i < whole && r == spec->root ? sum_of(n, i) : UNSET;
  case COMM_REDUCE_SCATTER:
  case COMM_REDUCE_SCATTER_V: return i == 0 ? sum_of(n, r) : UNSET;
  case COMM_ALL_GATHER:
  case COMM_ALL_GATHER_V: return i < n ? given(i, 0) : UNSET;
  case COMM_BROADCAST: return i < whole ? given(spec->root, i) : UNSET;
  case COMM_SCATTER: return i == 0 ? given(spec->root, r) : UNSET;
  default: return i < n ? given(i, r) : UNSET; /* AlltoAll */
  }
}

static void assert_result(const schedule_spec *spec, uint32_t n) {
  for (uint32_t r = 0; r < n; ++r) {
    const int64_t *sent = ranks[r].memory[SCHEDULE_SEND_BUFFER]; /* unset in place */
    for (uint32_t i = 0; i < MAX_SLICES; ++i)
      if (ranks[r].memory[SCHEDULE_RECEIVE_BUFFER][i] != expected(spec, n, r, i)) {
        print_error("kind %d algorithm %d,%d n %u root %u: rank %u slice %u\n", spec->kind, spec->algorithm[0],
                    spec->algorithm[1], n, spec->root, r, i);
        assert_int_equal(ranks[r].memory[SCHEDULE_RECEIVE_BUFFER][i], expected(spec, n, r, i));
      }
    for (uint32_t i = 0; i < MAX_SLICES; ++i) /* the send buffer is only read */
      assert_true(sent[i] == UNSET || sent[i] == given(r, i));
  }
}

static const comm_kind kinds[] = {COMM_ALL_REDUCE, COMM_REDUCE,       COMM_REDUCE_SCATTER, COMM_REDUCE_SCATTER_V,
                                  COMM_ALL_GATHER, COMM_ALL_GATHER_V, COMM_BROADCAST,      COMM_SCATTER,
                                  COMM_ALL_TO_ALL, COMM_ALL_TO_ALL_V, COMM_ALL_TO_ALL_VC};

/* In place as well, where programs do so. */
static void check(const schedule_spec *spec) {
  const uint32_t n = schedule_n_ranks(spec);
  for (int turn = 0; turn < (spec->kind == COMM_ALL_REDUCE ? 2 : 1); ++turn) {
    in_place = turn == 1;
    fill(spec, n);
    run_all(spec, n);
    assert_result(spec, n);
    free_all(n);
  }
  in_place = false;
}

static bool is_rooted(comm_kind k) { return k == COMM_REDUCE || k == COMM_BROADCAST || k == COMM_SCATTER; }

static void flat_schedules_give_the_result(void **state) {
  (void)state;
  int n_checked = 0;
  for (size_t k = 0; k < COUNT(kinds); ++k)
    for (int a = 0; a < SCHEDULE_N_ALGORITHMS; ++a)
      for (uint32_t n = 1; n <= 17; ++n) {
        schedule_spec spec = {
            .kind = kinds[k], .n_levels = 1, .size = {n}, .algorithm = {(schedule_algorithm)a}, .n_chunks = 1};
        if (!schedule_supports(&spec)) continue;
        for (spec.root = 0; spec.root < (is_rooted(kinds[k]) ? n : 1); ++spec.root) check(&spec);
        ++n_checked;
      }
  assert_int_equal(n_checked, 17 * (6 * 5 + 2 * 2 + 3 * 2));
}

static void hierarchical_schedules_give_the_result(void **state) {
  (void)state;
  static const uint32_t sizes[][3] = {{2, 2, 1}, {4, 2, 1}, {2, 3, 1}, {3, 5, 1}, {8, 2, 1},
                                      {1, 4, 1}, {4, 1, 1}, {2, 2, 2}, {2, 3, 2}, {3, 2, 3}};
  static const comm_kind of[] = {COMM_ALL_REDUCE, COMM_REDUCE_SCATTER, COMM_ALL_GATHER};
  for (size_t i = 0; i < COUNT(sizes); ++i)
    for (size_t k = 0; k < COUNT(of); ++k)
      for (int a = 0; a < SCHEDULE_PAIRWISE; ++a)
        for (int inner = 0; inner < 2; ++inner)
          for (uint32_t chunks = 1; chunks <= (of[k] == COMM_ALL_REDUCE ? 4u : 1u); ++chunks) {
            const schedule_algorithm at = (schedule_algorithm)a, first = inner ? SCHEDULE_RING : SCHEDULE_DIRECT;
            const schedule_spec spec = {.kind = of[k],
                                        .n_levels = sizes[i][2] > 1 ? 3 : 2,
                                        .size = {sizes[i][0], sizes[i][1], sizes[i][2]},
                                        .algorithm = {first, at, at},
                                        .n_chunks = chunks};
            assert_true(schedule_supports(&spec));
            check(&spec);
          }
}

/* V forms: no step has more than one slice, so that slices may lie anywhere. */
static void v_forms_have_single_slices(void **state) {
  (void)state;
  for (size_t k = 0; k < COUNT(kinds); ++k)
    for (int a = 0; a < SCHEDULE_N_ALGORITHMS; ++a) {
      const schedule_spec spec = {
          .kind = kinds[k], .n_levels = 1, .size = {7}, .algorithm = {(schedule_algorithm)a}, .n_chunks = 1};
      const bool is_v = kinds[k] == COMM_REDUCE_SCATTER_V || kinds[k] == COMM_ALL_GATHER_V ||
                        kinds[k] == COMM_ALL_TO_ALL_V || kinds[k] == COMM_ALL_TO_ALL_VC;
      schedule s;
      if (!is_v || !schedule_supports(&spec)) continue;
      assert_int_equal(schedule_build(&spec, 3, &s), ST_OK);
      for (uint32_t i = 0; i < s.n_steps; ++i) assert_int_equal(s.step[i].count, 1);
      schedule_free(&s);
    }
}

/* ---- formulas ---------------------------------------------------------------------------------------------------- */

/* The rounds and slices that a rank sends, receives and reduces, as HCCL's introduction to its algorithms has them. */
static void steps_have_the_sizes_of_the_formulas(void **state) {
  (void)state;
  for (uint32_t n = 1; n <= 17; ++n) {
    const uint32_t log = n < 2 ? 0 : 32 - (uint32_t)__builtin_clz(n - 1), parts = n - 1;
    const bool power = (n & (n - 1)) == 0;
    const struct {
      comm_kind kind;
      schedule_algorithm algorithm;
      uint32_t rounds, sent, reduced;
    } rows[] = {
        {COMM_ALL_REDUCE, SCHEDULE_DIRECT, n > 1 ? 2 : 0, 2 * parts, parts},
        {COMM_ALL_REDUCE, SCHEDULE_RING, 2 * parts, 2 * parts, parts},
        {COMM_ALL_REDUCE, SCHEDULE_NHR, 2 * log, 2 * parts, parts},
        {COMM_ALL_REDUCE, SCHEDULE_NB, 2 * log, 2 * parts, parts},
        {COMM_REDUCE_SCATTER, SCHEDULE_DIRECT, n > 1, parts, parts},
        {COMM_REDUCE_SCATTER, SCHEDULE_RING, parts, parts, parts},
        {COMM_REDUCE_SCATTER, SCHEDULE_NHR, log, parts, parts},
        {COMM_ALL_GATHER, SCHEDULE_NB, log, parts, 0},
        {COMM_ALL_GATHER, SCHEDULE_NHR, log, parts, 0},
        {COMM_ALL_TO_ALL, SCHEDULE_DIRECT, n > 1, parts, 0},
        {COMM_ALL_TO_ALL, SCHEDULE_PAIRWISE, parts, parts, 0},
        {COMM_ALL_REDUCE, SCHEDULE_HALVING_DOUBLING, 2 * log, power ? 2 * parts : 0, power ? parts : 0},
    };
    for (size_t k = 0; k < COUNT(rows); ++k)
      for (uint32_t rank = 0; rank < n; ++rank) {
        const schedule_spec spec = {
            .kind = rows[k].kind, .n_levels = 1, .size = {n}, .algorithm = {rows[k].algorithm}, .n_chunks = 1};
        schedule s;
        uint32_t sent = 0, received = 0, reduced = 0, rounds = 0, last = UINT32_MAX;
        assert_int_equal(schedule_build(&spec, rank, &s), ST_OK);
        for (uint32_t i = 0; i < s.n_steps; ++i) {
          const schedule_step *t = &s.step[i];
          sent += t->action == SCHEDULE_SEND ? t->count : 0;
          received += t->action == SCHEDULE_RECEIVE ? t->count : 0;
          reduced += t->action == SCHEDULE_REDUCE ? t->count * t->n_in : 0;
          rounds += t->action > SCHEDULE_REDUCE && t->round != last;
          if (t->action > SCHEDULE_REDUCE) last = t->round;
        }
        if (rows[k].sent || n == 1) { /* otherwise some ranks have nothing to do in some rounds */
          assert_int_equal(rounds, rows[k].rounds);
          assert_int_equal(sent, rows[k].sent);
          assert_int_equal(received, rows[k].sent);
          assert_int_equal(reduced, rows[k].reduced);
        }
        assert_true(rounds <= rows[k].rounds);
        schedule_free(&s);
      }
  }
}

static void pairs_exchange_one_message(void **state) {
  (void)state;
  schedule s;
  schedule_spec spec = {.kind = COMM_SEND, .root = 1, .n_levels = 1, .size = {2}, .n_chunks = 1};
  assert_int_equal(schedule_build(&spec, 0, &s), ST_OK);
  assert_int_equal(s.n_steps, 1);
  assert_int_equal(s.step[0].action, SCHEDULE_SEND);
  assert_int_equal(s.step[0].peer, 1);
  schedule_free(&s);
  spec.kind = COMM_RECV;
  spec.root = 0;
  assert_int_equal(schedule_build(&spec, 1, &s), ST_OK);
  assert_int_equal(s.step[0].action, SCHEDULE_RECEIVE);
  assert_int_equal(s.step[0].peer, 0);
  schedule_free(&s);
}

static void wrong_specs_are_refused(void **state) {
  (void)state;
  schedule s;
  schedule_spec spec = {.kind = COMM_ALL_REDUCE, .n_levels = 1, .size = {4}, .n_chunks = 1};
  assert_int_equal(schedule_build(&spec, 4, &s), ST_INVALID_VALUE);
  assert_non_null(strstr(fail_take(), "rank is 4, expected 0 to 3"));
  spec.root = 4;
  assert_int_equal(schedule_build(&spec, 0, &s), ST_INVALID_VALUE);
  assert_non_null(strstr(fail_take(), "root is 4"));
  spec.root = 0;
  spec.algorithm[0] = SCHEDULE_PAIRWISE;
  assert_int_equal(schedule_build(&spec, 0, &s), ST_INVALID_VALUE);
  spec = (schedule_spec){.kind = COMM_BROADCAST, .n_levels = 2, .size = {2, 2}, .n_chunks = 1};
  assert_false(schedule_supports(&spec));
  spec = (schedule_spec){.kind = COMM_ALL_GATHER, .n_levels = 2, .size = {2, 2}, .n_chunks = 2};
  assert_false(schedule_supports(&spec));
}

static void names_are_hccls(void **state) {
  (void)state;
  schedule_algorithm a;
  for (int i = 0; i < SCHEDULE_N_ALGORITHMS; ++i) {
    assert_true(schedule_algorithm_of(schedule_algorithm_name((schedule_algorithm)i), &a));
    assert_int_equal(a, i);
  }
  assert_true(schedule_algorithm_of("NHR_V1", &a));
  assert_int_equal(a, SCHEDULE_NHR);
  assert_false(schedule_algorithm_of("NA", &a));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(flat_schedules_give_the_result),
      cmocka_unit_test(hierarchical_schedules_give_the_result),
      cmocka_unit_test(v_forms_have_single_slices),
      cmocka_unit_test(steps_have_the_sizes_of_the_formulas),
      cmocka_unit_test(pairs_exchange_one_message),
      cmocka_unit_test(wrong_specs_are_refused),
      cmocka_unit_test(names_are_hccls),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
