/* Compiled as C99 with -pedantic: the headers are C, and stand on their own. */
#include "hone/attention.h"

hone_status c_header_round_trip(hone_matmul_spec* spec);

hone_status c_header_round_trip(hone_matmul_spec* spec) {
  return hone_matmul_spec_parse(spec, "matmul:f32:m={1,16},n=48,k=20,b=nn,alpha=0.5,beta=2:+bias+gelu*gate");
}

hone_status c_header_attention_spec(hone_attention_spec* spec);

hone_status c_header_attention_spec(hone_attention_spec* spec) {
  return hone_attention_spec_parse(spec, "attention:f32:b=2,hq=6,hkv=2,q={1,9},kv=50,d=16,dv=8:causal:lse");
}
