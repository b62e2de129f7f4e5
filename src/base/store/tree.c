/* SPDX-License-Identifier: Apache-2.0 */
#include "base/store/tree.h"

#include <stdbool.h>

static bool is_less(tree_key a, tree_key b) { return a.major != b.major ? a.major < b.major : a.minor < b.minor; }

/* The node with the larger priority is higher in the tree. */
static uint64_t priority(const tree_node *node) {
  const uint64_t mixed = (uint64_t)(uintptr_t)node * 0x9e3779b97f4a7c15u;
  return (mixed ^ mixed >> 32) * 0xbf58476d1ce4e5b9u;
}

/* Splits the subtree `node` into the nodes less than the key and the rest. */
static void part(tree_node *node, tree_key key, tree_node **less, tree_node **rest) {
  while (node) {
    if (is_less(node->key, key)) {
      *less = node;
      less = &node->right;
      node = node->right;
    } else {
      *rest = node;
      rest = &node->left;
      node = node->left;
    }
  }
  *less = *rest = NULL;
}

void tree_insert(tree *t, tree_node *node) {
  tree_node **at = &t->root;
  const uint64_t own = priority(node);
  while (*at && priority(*at) >= own) at = is_less((*at)->key, node->key) ? &(*at)->right : &(*at)->left;
  part(*at, node->key, &node->left, &node->right);
  *at = node;
}

void tree_remove(tree *t, const tree_node *node) {
  tree_node **at = &t->root, *left = node->left, *right = node->right;
  while (*at != node) at = is_less((*at)->key, node->key) ? &(*at)->right : &(*at)->left;
  while (left && right) {
    if (priority(left) >= priority(right)) {
      *at = left;
      at = &left->right;
      left = left->right;
    } else {
      *at = right;
      at = &right->left;
      right = right->left;
    }
  }
  *at = left ? left : right;
}

tree_node *tree_from(const tree *t, tree_key key) {
  tree_node *found = NULL;
  for (tree_node *node = t->root; node;) {
    const bool before = is_less(node->key, key);
    if (!before) found = node;
    node = before ? node->right : node->left;
  }
  return found;
}

tree_node *tree_before(const tree *t, tree_key key) {
  tree_node *found = NULL;
  for (tree_node *node = t->root; node;) {
    const bool before = is_less(node->key, key);
    if (before) found = node;
    node = before ? node->right : node->left;
  }
  return found;
}
