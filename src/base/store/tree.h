/* SPDX-License-Identifier: Apache-2.0 */
/* An ordered set of nodes that are members of the objects they index: a treap whose shape follows from the nodes'
 * addresses, so it is balanced in whatever order nodes are inserted. Finding, inserting and removing take some 2
 * log2(n) steps. The caller serialises all calls. */
#ifndef CANNON_BASE_STORE_TREE_H
#define CANNON_BASE_STORE_TREE_H

#include <stddef.h>
#include <stdint.h>

/* Nodes are ordered by `major`, then by `minor`. No two nodes of a tree have equal keys. */
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

/* The first node at or after the key, and the last node before the key; NULL if there is none. */
tree_node *tree_from(const tree *t, tree_key key);
tree_node *tree_before(const tree *t, tree_key key);

static inline tree_node *tree_first(const tree *t) { return tree_from(t, (tree_key){0, 0}); }
static inline tree_node *tree_next(const tree *t, const tree_node *node) {
  return tree_from(t, (tree_key){node->key.major, node->key.minor + 1});
}
static inline tree_node *tree_last(const tree *t) { return tree_before(t, (tree_key){UINT64_MAX, UINT64_MAX}); }

/* The object that the node is a member of. */
#define tree_item(node, type, member) ((type *)((char *)(node)-offsetof(type, member)))

#endif
