/* SPDX-License-Identifier: Apache-2.0 */
/* Mutation of seed inputs for fuzz tests that run without libFuzzer. The random sequence is fixed, so every run sees
 * the same inputs. */
#ifndef CANNON_TESTS_SUPPORT_FUZZ_H
#define CANNON_TESTS_SUPPORT_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOLDS(condition)                                                                                               \
  do {                                                                                                                 \
    if (!(condition)) {                                                                                                \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                                  \
      abort();                                                                                                         \
    }                                                                                                                  \
  } while (0)

static uint64_t fuzz_state = 1;

static inline uint32_t fuzz_below(uint32_t n) {
  uint64_t z = fuzz_state += 0x9e3779b97f4a7c15u; /* splitmix64 */
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return (uint32_t)((z ^ z >> 31) >> 32) % n;
}

/* Replaces the `gone` bytes at offset `at` by the `n` bytes at `bytes`, unless the result exceeds `most` bytes. Returns
 * the new size. */
static inline size_t fuzz_replace(char *text, size_t size, size_t most, size_t at, size_t gone, const char *bytes,
                                  size_t n) {
  if (gone > size - at) gone = size - at;
  if (size - gone + n > most) return size;
  memmove(text + at + n, text + at + gone, size - at - gone);
  memcpy(text + at, bytes, n);
  return size - gone + n;
}

/* Applies one random mutation. `words` is a NULL-terminated list of strings that have a meaning in the format. Returns
 * the new size. */
static inline size_t fuzz_mutate(char *text, size_t size, size_t most, const char *const *words) {
  const size_t at = fuzz_below((uint32_t)size + 1);
  char copy[64], byte = (char)fuzz_below(256);
  switch (fuzz_below(6)) {
  case 0: return fuzz_replace(text, size, most, at, 1, &byte, 1);
  case 1: return fuzz_replace(text, size, most, at, 1 + fuzz_below(4), "", 0);
  case 2: return at; /* truncates the input */
  case 3: {          /* copies a piece to another position */
    size_t n = 1 + fuzz_below(sizeof copy - 1);
    if (n > size - at) n = size - at;
    memcpy(copy, text + at, n);
    return fuzz_replace(text, size, most, fuzz_below((uint32_t)size + 1), 0, copy, n);
  }
  case 4:
    if (at < size) text[at] = (char)(text[at] ^ 1 << fuzz_below(8));
    return size;
  default: {
    uint32_t n_words = 0;
    while (words[n_words]) ++n_words;
    const char *word = words[fuzz_below(n_words)];
    return fuzz_replace(text, size, most, at, fuzz_below(3), word, strlen(word));
  }
  }
}

#endif
