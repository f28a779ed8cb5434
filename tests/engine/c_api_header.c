/* Compiled as C99 with -pedantic: the header is C, and stands on its own. */
#include "hone/hone.h"

hone_status c_header_round_trip(hone_matmul_spec* spec);

hone_status c_header_round_trip(hone_matmul_spec* spec) {
  return hone_matmul_spec_parse(spec, "matmul:f32:m={1,16},n=48,k=20,b=nn,alpha=0.5,beta=2:+bias+gelu*gate");
}
