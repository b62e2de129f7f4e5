/* SPDX-License-Identifier: Apache-2.0 */
/* 2/pi 2^k modulo 4 for k from 0 to 104, as sums of three doubles with bits down to 2^-27, down to 2^-56 and 53 more
 * bits; for vreduce_turn in vmath_wide.h. */
#ifndef CANNON_KERNEL_ENGINE_VMATH_VMATH_PI_H
#define CANNON_KERNEL_ENGINE_VMATH_VMATH_PI_H

static const double TWO_OVER_PI_HIGH[105] = {
    0x1.45f306cp-1, 0x1.45f306cp0,  0x1.45f306dp1,  0x1.17cc1b6p0,  0x1.17cc1b7p1,  0x1.7cc1b7p-2,  0x1.7cc1b7p-1,
    0x1.7cc1b72p0,  0x1.7cc1b72p1,  0x1.f306dc8p0,  0x1.f306dc9p1,  0x1.e60db93p1,  0x1.cc1b727p1,  0x1.9836e4ep1,
    0x1.306dc9cp1,  0x1.836e4e4p-1, 0x1.836e4e4p0,  0x1.836e4e4p1,  0x1.06dc9c8p1,  0x1.b72722p-4,  0x1.b72722p-3,
    0x1.b72722p-2,  0x1.b72722p-1,  0x1.b72722p0,   0x1.b72722p1,   0x1.6e4e441p1,  0x1.b939104p0,  0x1.b939105p1,
    0x1.727220ap1,  0x1.c9c882ap0,  0x1.c9c882ap1,  0x1.9391054p1,  0x1.27220a9p1,  0x1.3910548p-1, 0x1.391054ap0,
    0x1.391054ap1,  0x1.c882a5p-1,  0x1.c882a52p0,  0x1.c882a53p1,  0x1.91054a7p1,  0x1.220a94fp1,  0x1.1054a7cp-1,
    0x1.1054a7ep0,  0x1.1054a7fp1,  0x1.054a7fp-2,  0x1.054a7fp-1,  0x1.054a7fp0,   0x1.054a7fp1,   0x1.529fc2p-4,
    0x1.529fc2p-3,  0x1.529fc2p-2,  0x1.529fc24p-1, 0x1.529fc26p0,  0x1.529fc27p1,  0x1.4a7f09cp0,  0x1.4a7f09dp1,
    0x1.29fc274p0,  0x1.29fc275p1,  0x1.4fe13a8p-1, 0x1.4fe13aap0,  0x1.4fe13abp1,  0x1.3f84eaep0,  0x1.3f84eafp1,
    0x1.fc2757cp-1, 0x1.fc2757cp0,  0x1.fc2757dp1,  0x1.f84eafap1,  0x1.f09d5f4p1,  0x1.e13abe8p1,  0x1.c2757d1p1,
    0x1.84eafa3p1,  0x1.09d5f47p1,  0x1.3abe8fp-3,  0x1.3abe8f8p-2, 0x1.3abe8f8p-1, 0x1.3abe8fap0,  0x1.3abe8fap1,
    0x1.d5f47d4p-1, 0x1.d5f47d4p0,  0x1.d5f47d4p1,  0x1.abe8fa9p1,  0x1.57d1f53p1,  0x1.5f47d4cp0,  0x1.5f47d4dp1,
    0x1.7d1f534p0,  0x1.7d1f534p1,  0x1.f47d4d2p0,  0x1.f47d4d3p1,  0x1.e8fa9a6p1,  0x1.d1f534dp1,  0x1.a3ea69bp1,
    0x1.47d4d37p1,  0x1.1f534dcp0,  0x1.1f534ddp1,  0x1.f534dd8p-2, 0x1.f534ddcp-1, 0x1.f534ddcp0,  0x1.f534ddcp1,
    0x1.ea69bb8p1,  0x1.d4d377p1,   0x1.a9a6eep1,   0x1.534ddcp1,   0x1.4d37702p0,  0x1.4d37703p1,  0x1.34ddc0cp0,
};
static const double TWO_OVER_PI_MIDDLE[105] = {
    0x1.c9c882ap-29, 0x1.c9c882ap-28, 0x1.9391054p-28, 0x1.27220a9p-28, 0x1.3910548p-30, 0x1.391054ap-29,
    0x1.391054ap-28, 0x1.c882a5p-30,  0x1.c882a52p-29, 0x1.c882a53p-28, 0x1.91054a7p-28, 0x1.220a94fp-28,
    0x1.1054a7cp-30, 0x1.1054a7ep-29, 0x1.1054a7fp-28, 0x1.054a7fp-31,  0x1.054a7fp-30,  0x1.054a7fp-29,
    0x1.054a7fp-28,  0x1.529fc2p-33,  0x1.529fc2p-32,  0x1.529fc2p-31,  0x1.529fc24p-30, 0x1.529fc26p-29,
    0x1.529fc27p-28, 0x1.4a7f09cp-29, 0x1.4a7f09dp-28, 0x1.29fc274p-29, 0x1.29fc275p-28, 0x1.4fe13a8p-30,
    0x1.4fe13aap-29, 0x1.4fe13abp-28, 0x1.3f84eaep-29, 0x1.3f84eafp-28, 0x1.fc2757cp-30, 0x1.fc2757cp-29,
    0x1.fc2757dp-28, 0x1.f84eafap-28, 0x1.f09d5f4p-28, 0x1.e13abe8p-28, 0x1.c2757d1p-28, 0x1.84eafa3p-28,
    0x1.09d5f47p-28, 0x1.3abe8fp-32,  0x1.3abe8f8p-31, 0x1.3abe8f8p-30, 0x1.3abe8fap-29, 0x1.3abe8fap-28,
    0x1.d5f47d4p-30, 0x1.d5f47d4p-29, 0x1.d5f47d4p-28, 0x1.abe8fa9p-28, 0x1.57d1f53p-28, 0x1.5f47d4cp-29,
    0x1.5f47d4dp-28, 0x1.7d1f534p-29, 0x1.7d1f534p-28, 0x1.f47d4d2p-29, 0x1.f47d4d3p-28, 0x1.e8fa9a6p-28,
    0x1.d1f534dp-28, 0x1.a3ea69bp-28, 0x1.47d4d37p-28, 0x1.1f534dcp-29, 0x1.1f534ddp-28, 0x1.f534dd8p-31,
    0x1.f534ddcp-30, 0x1.f534ddcp-29, 0x1.f534ddcp-28, 0x1.ea69bb8p-28, 0x1.d4d377p-28,  0x1.a9a6eep-28,
    0x1.534ddcp-28,  0x1.4d37702p-29, 0x1.4d37703p-28, 0x1.34ddc0cp-29, 0x1.34ddc0dp-28, 0x1.a6ee06cp-30,
    0x1.a6ee06cp-29, 0x1.a6ee06dp-28, 0x1.4ddc0dbp-28, 0x1.377036cp-29, 0x1.377036dp-28, 0x1.bb81b6cp-30,
    0x1.bb81b6cp-29, 0x1.bb81b6cp-28, 0x1.77036d8p-28, 0x1.dc0db62p-29, 0x1.dc0db62p-28, 0x1.b81b6c5p-28,
    0x1.7036d8ap-28, 0x1.c0db628p-29, 0x1.c0db629p-28, 0x1.81b6c52p-28, 0x1.036d8a5p-28, 0x1.b6c528p-34,
    0x1.b6c52ap-33,  0x1.b6c52bp-32,  0x1.b6c52bp-31,  0x1.b6c52bp-30,  0x1.b6c52b2p-29, 0x1.b6c52b3p-28,
    0x1.6d8a566p-28, 0x1.b629598p-29, 0x1.b629599p-28,
};
static const double TWO_OVER_PI_LOW[105] = {
    0x1.4fe13abe8fa9ap-59, 0x1.4fe13abe8fa9ap-58, 0x1.4fe13abe8fa9ap-57, 0x1.3f84eafa3ea6ap-58, 0x1.3f84eafa3ea6ap-57,
    0x1.fc2757d1f534ep-59, 0x1.fc2757d1f534ep-58, 0x1.fc2757d1f534ep-57, 0x1.f84eafa3ea69cp-57, 0x1.f09d5f47d4d37p-57,
    0x1.e13abe8fa9a6fp-57, 0x1.c2757d1f534dep-57, 0x1.84eafa3ea69bcp-57, 0x1.09d5f47d4d377p-57, 0x1.3abe8fa9a6eep-61,
    0x1.3abe8fa9a6eep-60,  0x1.3abe8fa9a6eep-59,  0x1.3abe8fa9a6eep-58,  0x1.3abe8fa9a6eep-57,  0x1.d5f47d4d37703p-59,
    0x1.d5f47d4d37703p-58, 0x1.d5f47d4d37703p-57, 0x1.abe8fa9a6ee07p-57, 0x1.57d1f534ddc0ep-57, 0x1.5f47d4d377037p-58,
    0x1.5f47d4d377037p-57, 0x1.7d1f534ddc0dbp-58, 0x1.7d1f534ddc0dbp-57, 0x1.f47d4d377036ep-58, 0x1.f47d4d377036ep-57,
    0x1.e8fa9a6ee06dbp-57, 0x1.d1f534ddc0db6p-57, 0x1.a3ea69bb81b6cp-57, 0x1.47d4d377036d9p-57, 0x1.1f534ddc0db63p-58,
    0x1.1f534ddc0db63p-57, 0x1.f534ddc0db629p-60, 0x1.f534ddc0db629p-59, 0x1.f534ddc0db629p-58, 0x1.f534ddc0db629p-57,
    0x1.ea69bb81b6c53p-57, 0x1.d4d377036d8a5p-57, 0x1.a9a6ee06db14bp-57, 0x1.534ddc0db6296p-57, 0x1.4d377036d8a56p-58,
    0x1.4d377036d8a56p-57, 0x1.34ddc0db6295ap-58, 0x1.34ddc0db6295ap-57, 0x1.a6ee06db14acdp-59, 0x1.a6ee06db14acdp-58,
    0x1.a6ee06db14acdp-57, 0x1.4ddc0db629599p-57, 0x1.377036d8a5665p-58, 0x1.377036d8a5665p-57, 0x1.bb81b6c52b328p-59,
    0x1.bb81b6c52b328p-58, 0x1.bb81b6c52b328p-57, 0x1.77036d8a5664fp-57, 0x1.dc0db6295993cp-58, 0x1.dc0db6295993cp-57,
    0x1.b81b6c52b3279p-57, 0x1.7036d8a5664f1p-57, 0x1.c0db6295993c4p-58, 0x1.c0db6295993c4p-57, 0x1.81b6c52b32788p-57,
    0x1.036d8a5664f11p-57, 0x1.b6c52b3278872p-63, 0x1.b6c52b3278872p-62, 0x1.b6c52b3278872p-61, 0x1.b6c52b3278872p-60,
    0x1.b6c52b3278872p-59, 0x1.b6c52b3278872p-58, 0x1.b6c52b3278872p-57, 0x1.6d8a5664f10e4p-57, 0x1.b6295993c439p-58,
    0x1.b6295993c439p-57,  0x1.6c52b32788721p-57, 0x1.b14acc9e21c82p-58, 0x1.b14acc9e21c82p-57, 0x1.6295993c43904p-57,
    0x1.8a5664f10e41p-58,  0x1.8a5664f10e41p-57,  0x1.14acc9e21c821p-57, 0x1.4acc9e21c821p-60,  0x1.4acc9e21c821p-59,
    0x1.4acc9e21c821p-58,  0x1.4acc9e21c821p-57,  0x1.2b3278872084p-58,  0x1.2b3278872084p-57,  0x1.5993c439041fep-59,
    0x1.5993c439041fep-58, 0x1.5993c439041fep-57, 0x1.664f10e4107f9p-58, 0x1.664f10e4107f9p-57, 0x1.993c439041fe5p-58,
    0x1.993c439041fe5p-57, 0x1.3278872083fcap-57, 0x1.93c439041fe51p-59, 0x1.93c439041fe51p-58, 0x1.93c439041fe51p-57,
    0x1.278872083fca3p-57, 0x1.3c439041fe516p-59, 0x1.3c439041fe516p-58, 0x1.3c439041fe516p-57, 0x1.e21c820ff28b2p-59,
};

#endif
