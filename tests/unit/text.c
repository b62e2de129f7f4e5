/* SPDX-License-Identifier: Apache-2.0 */
/* Text from foreign sources is escaped for display; parsing and printing of numbers and sizes. */
#include "base/text.h"

#include "base/size.h"
#include "unit.h"

static void expect_safe(const char *text, const char *safe) {
  char out[256];
  assert_int_equal(text_safe(out, sizeof out, text, strlen(text)), strlen(safe));
  assert_string_equal(out, safe);
}

static void printable_text_is_unchanged(void **state) {
  (void)state;
  expect_safe("", "");
  expect_safe("a program (1) \"<&>\"", "a program (1) \"<&>\"");
  expect_safe("\xc3\xbc\xe4\xb8\xad\xf0\x9f\x9a\x80", "\xc3\xbc\xe4\xb8\xad\xf0\x9f\x9a\x80");
}

static void control_characters_and_invalid_utf8_are_escaped(void **state) {
  (void)state;
  expect_safe("\x1b]0;title\a", "\\x1b]0;title\\x07");
  expect_safe("a\nb\tc\x7f", "a\\x0a"
                             "b\\x09"
                             "c\\x7f");
  expect_safe("\xc2\x9b"
              "31m",
              "\\xc2\\x9b"
              "31m");                                      /* the control sequence introducer as one character */
  expect_safe("\xe2\x80\xae", "\\xe2\\x80\\xae");          /* switches to right-to-left text */
  expect_safe("\xff\xc0\x80\xc3", "\\xff\\xc0\\x80\\xc3"); /* never valid, overlong form, truncated */
  expect_safe("\xed\xa0\x80", "\\xed\\xa0\\x80");          /* a surrogate */
  expect_safe("\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"); /* beyond the last code point */
  expect_safe("\xe0\x9f\xbf", "\\xe0\\x9f\\xbf");
}

static void truncation_keeps_characters_whole(void **state) {
  (void)state;
  char out[8];
  assert_int_equal(text_safe(out, 1, "abc", 3), 0);
  assert_int_equal(text_safe(out, 4, "abc", 3), 3);
  assert_int_equal(text_safe(out, 3, "a\xc3\xbc", 3), 1);
  assert_int_equal(text_safe(out, 5, "a\x1b", 2), 1);
  assert_int_equal(text_safe(out, 6, "a\x1b", 2), 5);
  char full[4] = {'a', 'b', 'c', 'd'}, bad[8] = "ab\x1b";
  text_make_safe(full, sizeof full);
  assert_string_equal(full, "abc");
  text_make_safe(bad, sizeof bad);
  assert_string_equal(bad, "ab\\x1b");
}

static void sizes_are_read_exactly(void **state) {
  (void)state;
  static const struct {
    const char *text;
    size_verdict verdict;
    uint64_t bytes;
  } cases[] = {
      {"512", SIZE_OK, 512},
      {"2k", SIZE_OK, 2048},
      {"1.5G", SIZE_OK, UINT64_C(3) << 29},
      {"0.5M", SIZE_OK, 1 << 19},
      {"1.25k", SIZE_OK, 1280},
      {"1.1M", SIZE_OK, 1153433}, /* rounded down from 1153433.6 */
      {"1.1T", SIZE_OK, UINT64_C(1209462790553)},
      {"1.10000000000000000000000001T", SIZE_OK, UINT64_C(1209462790553)},
      {"2.0000000000001T", SIZE_OK, UINT64_C(2) << 40},
      {"0", SIZE_TOO_SMALL, 0},
      {"0.0G", SIZE_TOO_SMALL, 0},
      {"99999999T", SIZE_TOO_LARGE, 0},
      {"99999999999999999999999", SIZE_TOO_LARGE, 0},
      {"9223372036854775807", SIZE_OK, INT64_MAX},
      {"9223372036854775808", SIZE_TOO_LARGE, 0},
      {"", SIZE_MALFORMED, 0},
      {"-1", SIZE_MALFORMED, 0},
      {" 1", SIZE_MALFORMED, 0},
      {"1.5", SIZE_MALFORMED, 0},
      {"1.G", SIZE_MALFORMED, 0},
      {".5G", SIZE_MALFORMED, 0},
      {"2GB", SIZE_MALFORMED, 0},
      {"1e3", SIZE_MALFORMED, 0},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    uint64_t bytes = 0;
    const size_verdict verdict = size_parse(cases[i].text, 1, INT64_MAX, &bytes);
    if (verdict != cases[i].verdict || bytes != cases[i].bytes)
      print_error("\"%s\" gave %d, %ju\n", cases[i].text, verdict, (uintmax_t)bytes);
    assert_int_equal(verdict, cases[i].verdict);
    assert_int_equal(bytes, cases[i].bytes);
  }
}

static void numbers_are_limited_to_their_range(void **state) {
  (void)state;
  uint64_t n = 7;
  assert_int_equal(size_parse_number("16", 0, 16, &n), SIZE_OK);
  assert_int_equal(n, 16);
  assert_int_equal(size_parse_number("17", 0, 16, &n), SIZE_TOO_LARGE);
  assert_int_equal(size_parse_number("0", 1, 16, &n), SIZE_TOO_SMALL);
  assert_int_equal(size_parse_number("abc", 0, 16, &n), SIZE_MALFORMED);
  assert_int_equal(size_parse_number("1.5", 0, 16, &n), SIZE_MALFORMED);
  assert_int_equal(size_parse_number("1K", 0, UINT64_MAX, &n), SIZE_MALFORMED);
  assert_int_equal(n, 16);
  assert_int_equal(size_parse_number("0018446744073709551615", 0, UINT64_MAX, &n), SIZE_OK);
  assert_true(n == UINT64_MAX);
  assert_int_equal(size_parse_number("18446744073709551616", 0, UINT64_MAX, &n), SIZE_TOO_LARGE);
}

static void sizes_are_printed_with_three_digits(void **state) {
  (void)state;
  assert_string_equal(size_in_words(0).text, "0 B");
  assert_string_equal(size_in_words(1023).text, "1023 B");
  assert_string_equal(size_in_words(1536).text, "1.50 KiB");
  assert_string_equal(size_in_words(408997888).text, "390 MiB");
  assert_string_equal(size_in_words(UINT64_MAX).text, "16.0 EiB");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(printable_text_is_unchanged),
      cmocka_unit_test(control_characters_and_invalid_utf8_are_escaped),
      cmocka_unit_test(truncation_keeps_characters_whole),
      cmocka_unit_test(sizes_are_read_exactly),
      cmocka_unit_test(numbers_are_limited_to_their_range),
      cmocka_unit_test(sizes_are_printed_with_three_digits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
