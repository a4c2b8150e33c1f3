/* What watches a run of this program, stage by stage; nothing, unless it is compiled with
   -DSARDONYX_TRACE. All memory must be zero before the first run. */
#ifndef SARDONYX_OBSERVE_H
#define SARDONYX_OBSERVE_H
#include <stddef.h>
#include <string.h>

#if defined(SARDONYX_MONITOR) && !defined(SARDONYX_TRACE)
#error "the flags of a graph in stages are those of its trace: use -DSARDONYX_TRACE"
#endif
#if defined(SARDONYX_TRACE)
#define SARDONYX_OBSERVED 1
#define SARDONYX_CLEAR(memory, size) memset(memory, 0, size)
#define SARDONYX_OPEN(depth) sx_opens(depth)
#define SARDONYX_TELL(k, memory, at) sx_tell(k, memory, at)
#define SARDONYX_BEFORE(memory, k) sx_before(memory, k)
#define SARDONYX_AFTER(memory, k) sx_after(memory, k)
#define SARDONYX_TRAP(memory, k) sx_trapped(memory, k)
void sx_opens(int depth);
void sx_tell(int k, const unsigned char *memory, const void *const *at);
void sx_before(unsigned char *memory, int k);
int sx_after(unsigned char *memory, int k);
void sx_trapped(unsigned char *memory, int k);

/* Where the pieces of the trace go; call it before a run. One run at a time may be traced. */
void sardonyx_trace(void (*put)(void *to, const char *text, size_t length), void *to);
#else
#define SARDONYX_OBSERVED 0
#define SARDONYX_CLEAR(memory, size) ((void)0)
#define SARDONYX_OPEN(depth) ((void)0)
#define SARDONYX_TELL(k, memory, at) ((void)(at))
#define SARDONYX_BEFORE(memory, k) ((void)0)
#define SARDONYX_AFTER(memory, k) 0
#define SARDONYX_TRAP(memory, k) ((void)0)
#endif
#endif
