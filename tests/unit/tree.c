/* SPDX-License-Identifier: Apache-2.0 */
/* Balanced trees compared with an array of their items. */
#include "base/store/tree.h"

#include "unit.h"

enum { N = 300 };

typedef struct {
  tree_node node;
  bool in;
} item;

static item items[N];

static bool is_less(tree_key a, tree_key b) { return a.major != b.major ? a.major < b.major : a.minor < b.minor; }

/* The reference: the first item at or after the key, or the last one before it. */
static tree_node *expected(tree_key key, bool before) {
  tree_node *best = NULL;
  for (int i = 0; i < N; i++) {
    tree_node *n = &items[i].node;
    if (!items[i].in || is_less(n->key, key) != before) continue;
    if (!best || is_less(n->key, best->key) != before) best = n;
  }
  return best;
}

static void a_tree_is_a_sorted_set(void **state) {
  (void)state;
  tree t = {0};
  random_source r = {1};
  memset(items, 0, sizeof items);
  assert_null(tree_first(&t));
  assert_null(tree_last(&t));
  for (int i = 0; i < N; i++) items[i].node.key = (tree_key){random_below(&r, 20), (uint64_t)i};
  for (int step = 0; step < ROUNDS(40000); step++) {
    item *it = &items[random_below(&r, N)];
    if (it->in)
      tree_remove(&t, &it->node);
    else
      tree_insert(&t, &it->node);
    it->in = !it->in;
    const tree_key key = {random_below(&r, 22), random_below(&r, N)};
    assert_ptr_equal(tree_from(&t, key), expected(key, false));
    assert_ptr_equal(tree_before(&t, key), expected(key, true));
  }
  int n = 0, in = 0;
  for (tree_node *node = tree_first(&t), *next; node; node = next, n++) {
    next = tree_next(&t, node);
    assert_true(!next || is_less(node->key, next->key));
    assert_ptr_equal(tree_item(node, item, node), (item *)node);
  }
  for (int i = 0; i < N; i++) in += items[i].in;
  assert_int_equal(n, in);
}

/* Many items inserted in ascending order: the tree must stay balanced. */
static void a_tree_stays_balanced(void **state) {
  (void)state;
  enum { MANY = 1 << 16, MOST_DEPTH = 64 };
  tree t = {0};
  tree_node *nodes = calloc(MANY, sizeof *nodes);
  assert_non_null(nodes);
  for (uint64_t i = 0; i < MANY; i++) {
    nodes[i].key.major = i;
    tree_insert(&t, &nodes[i]);
  }
  for (int i = 0; i < MANY; i += 997) {
    int depth = 0;
    for (const tree_node *n = t.root; n != &nodes[i]; depth++) n = is_less(n->key, nodes[i].key) ? n->right : n->left;
    assert_true(depth < MOST_DEPTH);
  }
  free(nodes);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_tree_is_a_sorted_set),
      cmocka_unit_test(a_tree_stays_balanced),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
