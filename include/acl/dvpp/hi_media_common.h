/* SPDX-License-Identifier: Apache-2.0
 *
 * Device memory for media processing (DVPP): second version of that interface. */
#ifndef ACL_DVPP_HI_MEDIA_COMMON_H
#define ACL_DVPP_HI_MEDIA_COMMON_H

#ifdef __cplusplus
extern "C" {
#endif

/* The same as acldvppMalloc and acldvppFree. The device is the current one, whatever dev_id is. Return 0 or an
 * error: 0xA0028003: an invalid argument; 0xA0028006: a NULL pointer; 0xA0028009: no device was set; 0xA002800C: not
 * enough memory. */
__attribute__((visibility("default"))) int hi_mpi_dvpp_malloc(unsigned int dev_id, void **dev_ptr,
                                                              unsigned long long size);
__attribute__((visibility("default"))) int hi_mpi_dvpp_free(void *dev_ptr);

#ifdef __cplusplus
}
#endif

#endif
