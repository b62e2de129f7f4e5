/* A host access to device memory: it faults at once, since users' addresses have nothing behind them, and the handler
 * here says what was touched before the program ends. Faults elsewhere are passed on to whoever was there first. */
#ifndef CANNON_MEMORY_FAULT_H
#define CANNON_MEMORY_FAULT_H

#include <stddef.h>

void fault_handler_install(void);

/* A code address as "object(symbol+0x12)", for messages. */
void fault_describe_site(void *site, char *text, size_t bytes);

#endif
