// The hooks of a tracked build, called by hand. With -DSTUBS they do nothing and
// come from the program itself: that is the untouched build.
#include <stdint.h>
#ifdef STUBS
#define HOOK static inline
#define BODY {}
static volatile uint32_t __failsketch_enabled, __failsketch_active;
#else
#define HOOK extern
#define BODY ;
extern volatile uint32_t __failsketch_enabled, __failsketch_active;
#endif
// What the entry of a tracked function asks.
#define CLONE_IS_TO_RUN (__failsketch_enabled && __failsketch_active)
HOOK void __failsketch_access(uint32_t site, uint32_t write_and_size, uint64_t address,
                              uint64_t value, uint64_t before, uint64_t after) BODY
HOOK void __failsketch_branch(uint32_t site, uint32_t successor) BODY
HOOK void __failsketch_call(uint32_t site) BODY
HOOK void __failsketch_sync_begin(uint32_t site, uint64_t object) BODY
HOOK void __failsketch_sync_end(uint32_t site, uint64_t object, uint64_t result,
                                uint64_t before) BODY
HOOK void __failsketch_arm(uint32_t slot, uint64_t address, uint32_t size) BODY
