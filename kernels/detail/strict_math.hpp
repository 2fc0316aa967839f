// Compiler settings of the kernels' loops. Include first, and only from a .cpp file of this folder:
// the pragma holds for everything that follows in the translation unit, and g++ inlines only
// between functions with equal settings.
//
// fp-contract=off: a * b + c is two rounded operations on every machine, so the same input gives
// the same bits with and without -march=native, in a vector body and in its scalar tail, in place
// and out of place, and for every way of cutting an array into shards.
#pragma once

#if defined(__clang__)
#pragma clang fp contract(off)
// clang's own run-time overlap checks do; a forced hint would warn wherever a pass declines it.
#define TROUPE_INDEPENDENT_LOOP
#elif defined(__GNUC__)
#pragma GCC optimize("fp-contract=off")
/// The next loop's iterations are independent: arrays are equal or disjoint, never shifted against
/// each other.
#define TROUPE_INDEPENDENT_LOOP _Pragma("GCC ivdep")
#else
#define TROUPE_INDEPENDENT_LOOP
#endif
