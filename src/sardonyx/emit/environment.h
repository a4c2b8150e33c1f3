/* The floating-point environment that every run sets, and restores: round to nearest, subnormals
   kept, no exceptions that interrupt. Another library of the process may have changed it. */
#if (defined(__SSE__) || defined(_M_X64))
#include <xmmintrin.h>
typedef unsigned int sx_environment;
static sx_environment sx_enter(void) {
  const unsigned int old = _mm_getcsr();
  _mm_setcsr((old & ~0xe040u) | 0x1f80u);
  return old;
}
static void sx_leave(sx_environment old) { _mm_setcsr(old); }
#elif defined(__aarch64__) && (defined(__GNUC__) || defined(__clang__))
typedef uint64_t sx_environment;
static sx_environment sx_enter(void) {
  uint64_t old;
  __asm__ __volatile__("mrs %0, fpcr" : "=r"(old));
  __asm__ __volatile__("msr fpcr, %0" : : "r"(old & ~UINT64_C(0x03c89f03)));
  return old;
}
static void sx_leave(sx_environment old) { __asm__ __volatile__("msr fpcr, %0" : : "r"(old)); }
#elif defined(__arm__) && defined(__ARM_FP) && (defined(__GNUC__) || defined(__clang__))
typedef uint32_t sx_environment;
static sx_environment sx_enter(void) {
  uint32_t old;
  __asm__ __volatile__("vmrs %0, fpscr" : "=r"(old));
  __asm__ __volatile__("vmsr fpscr, %0" : : "r"(old & ~UINT32_C(0x03c89f00)));
  return old;
}
static void sx_leave(sx_environment old) { __asm__ __volatile__("vmsr fpscr, %0" : : "r"(old)); }
#else
#include <fenv.h>
typedef int sx_environment;
#if defined(FE_TONEAREST)
static sx_environment sx_enter(void) {
  const int old = fegetround();
  fesetround(FE_TONEAREST);
  return old;
}
static void sx_leave(sx_environment old) { fesetround(old); }
#else
static sx_environment sx_enter(void) { return 0; }
static void sx_leave(sx_environment old) { (void)old; }
#endif
#endif
#if defined(__GNUC__) || defined(__clang__)
#define SX_APART __attribute__((noinline))
#else
#define SX_APART
#endif
