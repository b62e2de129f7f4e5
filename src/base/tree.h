/* An ordered set of nodes that live in what they index: a treap, whose shape is drawn from the nodes' addresses, so that
 * it is balanced whatever the order of insertion. Finding, inserting and removing take some 2 log2(n) steps. The caller
 * serialises calls. */
#ifndef CANNON_BASE_TREE_H
#define CANNON_BASE_TREE_H

#include <stddef.h>
#include <stdint.h>

/* By the first number, then by the second; no two nodes of a tree have both in common. */
typedef struct {
  uint64_t major, minor;
} tree_key;

typedef struct tree_node {
  tree_key key; /* set before insertion */
  struct tree_node *left, *right;
} tree_node;

typedef struct {
  tree_node *root;
} tree;

void tree_insert(tree *t, tree_node *node);
void tree_remove(tree *t, const tree_node *node);

/* The first node at or after the key, and the last one before it; NULL where there is none. */
tree_node *tree_from(const tree *t, tree_key key);
tree_node *tree_before(const tree *t, tree_key key);

static inline tree_node *tree_first(const tree *t) { return tree_from(t, (tree_key){0, 0}); }
static inline tree_node *tree_next(const tree *t, const tree_node *node) {
  return tree_from(t, (tree_key){node->key.major, node->key.minor + 1});
}
static inline tree_node *tree_last(const tree *t) { return tree_before(t, (tree_key){UINT64_MAX, UINT64_MAX}); }

/* What holds the node. */
#define tree_item(node, type, member) ((type *)((char *)(node)-offsetof(type, member)))

#endif
