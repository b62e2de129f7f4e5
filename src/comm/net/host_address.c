/* SPDX-License-Identifier: Apache-2.0 */
/* Choice of the interface by which other hosts reach this one: bootstrap_host_address. */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdbool.h>
#include <string.h>

#include "base/text.h"
#include "comm/comm_settings.h"
#include "comm/start/bootstrap.h"

/* Whether the interface's address is of the family, and can be reached from elsewhere by its number alone: an IPv6
 * link-local address also needs the name of an interface of the other host. */
static bool host_address_fits(const struct ifaddrs *i, int family) {
  if (!i->ifa_addr || i->ifa_addr->sa_family != family || !(i->ifa_flags & IFF_UP)) return false;
  return family == AF_INET || !IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)i->ifa_addr)->sin6_addr);
}

/* Whether HCCL_SOCKET_IFNAME chooses the interface: a list of names with commas, or of beginnings of names; after ^
 * those that are not to be taken, after = whole names. */
static bool host_address_chosen(const char *list, const char *name) {
  const bool others = *list == '^';
  list += others;
  const bool whole = *list == '=';
  list += whole;
  bool found = false;
  while (*list) {
    const size_t n = strcspn(list, ",");
    if (n && strncmp(list, name, n) == 0 && (!whole || name[n] == '\0')) found = true;
    list += n + (list[n] == ',');
  }
  return found != others;
}

/* The order of preference: other interfaces, docker*, lo. */
static int host_address_class(const struct ifaddrs *i) {
  return i->ifa_flags & IFF_LOOPBACK ? 2 : strncmp(i->ifa_name, "docker", 6) == 0 ? 1 : 0;
}

static bool host_address_is_better(const struct ifaddrs *a, const struct ifaddrs *b) {
  if (!b) return true;
  const int first = host_address_class(a), second = host_address_class(b);
  return first != second ? first < second : strcmp(a->ifa_name, b->ifa_name) < 0;
}

static bool host_address_has_ip(const struct ifaddrs *i, const struct sockaddr_storage *ip) {
  if (!i->ifa_addr || i->ifa_addr->sa_family != ip->ss_family) return false;
  if (ip->ss_family == AF_INET)
    return ((const struct sockaddr_in *)i->ifa_addr)->sin_addr.s_addr ==
           ((const struct sockaddr_in *)ip)->sin_addr.s_addr;
  return memcmp(&((const struct sockaddr_in6 *)i->ifa_addr)->sin6_addr, &((const struct sockaddr_in6 *)ip)->sin6_addr,
                sizeof(struct in6_addr)) == 0;
}

/* The interface that has HCCL_IF_IP. */
static const struct ifaddrs *host_address_by_ip(const struct ifaddrs *all, const comm_settings *s) {
  for (const struct ifaddrs *i = all; i; i = i->ifa_next)
    if (host_address_has_ip(i, &s->if_ip)) return i;
  return NULL;
}

static const struct ifaddrs *host_address_by_name(const struct ifaddrs *all, int family, const char *names) {
  const struct ifaddrs *best = NULL;
  for (const struct ifaddrs *i = all; i; i = i->ifa_next)
    if (host_address_fits(i, family) && (!*names || host_address_chosen(names, i->ifa_name)) &&
        host_address_is_better(i, best))
      best = i;
  return best;
}

static status host_address_none(const comm_settings *s) {
  const char *family = s->socket_family == AF_INET6 ? "IPv6" : "IPv4";
  if (s->if_ip.ss_family) {
    char ip[INET6_ADDRSTRLEN] = "?";
    const void *bytes = s->if_ip.ss_family == AF_INET6
                            ? (const void *)&((const struct sockaddr_in6 *)&s->if_ip)->sin6_addr
                            : (const void *)&((const struct sockaddr_in *)&s->if_ip)->sin_addr;
    inet_ntop(s->if_ip.ss_family, bytes, ip, sizeof ip);
    return fail(ST_INVALID_VALUE, "HCCL_IF_IP is %s, expected the address of an interface of this host", ip);
  }
  if (*s->socket_ifname) {
    char name[100];
    text_safe(name, sizeof name, s->socket_ifname, strlen(s->socket_ifname));
    return fail(ST_INVALID_VALUE,
                "HCCL_SOCKET_IFNAME is '%s', which leaves no interface with an %s address; expected "
                "names or beginnings of names of interfaces (eth, ^eth, =eth0, ^=eth0)",
                name, family);
  }
  return fail(ST_INVALID_VALUE,
              "this host has no interface with an %s address, expected one; HCCL_SOCKET_FAMILY "
              "(AF_INET, AF_INET6) chooses the family",
              family);
}

status bootstrap_host_address(struct sockaddr_storage *out) {
  const comm_settings *s;
  struct ifaddrs *all;
  TRY(comm_settings_get(&s));
  if (getifaddrs(&all) != 0) return fail(ST_FAILURE, "the interfaces cannot be listed: %s", strerror(errno));
  const struct ifaddrs *found;
  if (s->if_ip.ss_family)
    found = host_address_by_ip(all, s);
  else {
    found = host_address_by_name(all, s->socket_family ? s->socket_family : AF_INET, s->socket_ifname);
    /* A host without IPv4 is reached by IPv6, unless the user has said which. */
    if (!found && !s->socket_family) found = host_address_by_name(all, AF_INET6, s->socket_ifname);
  }
  if (found) {
    memset(out, 0, sizeof *out);
    memcpy(out, found->ifa_addr,
           found->ifa_addr->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in));
  }
  freeifaddrs(all);
  return found ? ST_OK : host_address_none(s);
}
