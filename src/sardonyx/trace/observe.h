/* What watches a run of this program, operation by operation; nothing, unless it is compiled with
   -DSARDONYX_MONITOR (flags) or -DSARDONYX_TRACE (flags, and a trace).

   Flag i of operation k is memory[SARDONYX_FLAGS + 64 * k + i] after the run: 0 a NaN was made, 1 an
   infinity was made, 2 a result underflowed to zero, 3 an integer wrapped, 4 division by zero, 5 an
   operand outside of its operator's domain, 6 an index out of range, 7 an output is empty and no
   input is. If
   memory[SARDONYX_FLAGS + 64 * k + 8 + i] is not 0 before the run, flag i ends it after operation k:
   the run then returns 4. All memory must be zero before the first run. */
#ifndef SARDONYX_OBSERVE_H
#define SARDONYX_OBSERVE_H
#include <stddef.h>
#define SARDONYX_FLAGS @FLAGS@
#define SARDONYX_OPERATIONS @OPERATIONS@

#if defined(SARDONYX_TRACE) || defined(SARDONYX_MONITOR)
#define SARDONYX_OBSERVED 1
#define SARDONYX_BEGIN(memory) sx_begin(memory)
#define SARDONYX_BEFORE(memory, k) sx_before(memory, k)
#define SARDONYX_AFTER(memory, k) sx_after(memory, k)
#define SARDONYX_TRAP(memory, k) sx_trapped(memory, k)
#define SARDONYX_END(memory) sx_end(memory)
void sx_begin(const unsigned char *memory);
void sx_before(unsigned char *memory, int k);
int sx_after(unsigned char *memory, int k);
void sx_trapped(unsigned char *memory, int k);
void sx_end(const unsigned char *memory);
#else
#define SARDONYX_OBSERVED 0
#define SARDONYX_BEGIN(memory) ((void)0)
#define SARDONYX_BEFORE(memory, k) ((void)0)
#define SARDONYX_AFTER(memory, k) 0
#define SARDONYX_TRAP(memory, k) ((void)0)
#define SARDONYX_END(memory) ((void)0)
#endif

#if defined(SARDONYX_TRACE)
/* Where the pieces of the trace go; call it before a run. One run at a time may be traced. */
void sardonyx_trace(void (*put)(void *to, const char *text, size_t length), void *to);
#endif
#endif
