/* SPDX-License-Identifier: Apache-2.0 */
/* WITH_ASAN and WITH_TSAN say which sanitizer the library is built with, for the few places that must know. */
#ifndef CANNON_BASE_SANITIZER_H
#define CANNON_BASE_SANITIZER_H

#if defined(__has_feature)
#  define SANITIZER_FEATURE(name) __has_feature(name)
#else
#  define SANITIZER_FEATURE(name) 0
#endif

#if defined(__SANITIZE_ADDRESS__) || SANITIZER_FEATURE(address_sanitizer)
#  define WITH_ASAN 1
#  include <sanitizer/lsan_interface.h>
#else
#  define WITH_ASAN 0
#endif

#if defined(__SANITIZE_THREAD__) || SANITIZER_FEATURE(thread_sanitizer)
#  define WITH_TSAN 1
#else
#  define WITH_TSAN 0
#endif

#endif
