/* SPDX-License-Identifier: Apache-2.0 */
/* Fractions behind rounded numbers. Pure functions, called by any folder. */
#ifndef CANNON_BASE_FRACTION_H
#define CANNON_BASE_FRACTION_H

/* The fraction with the smallest denominator among those that x, a positive normal number, is the nearest float of: 1.7
 * for 1.7F, 1.0 / 480 for 0.0020833334F. Interfaces take factors as floats that their callers have as doubles; a result
 * that jumps where a multiple of the factor is an integer needs the factor that was meant. Other numbers, and doubles
 * that are no floats, are returned as they are. */
double fraction_meant(double x);

#endif
