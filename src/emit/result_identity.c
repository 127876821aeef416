/*-------------------------------------------------------------------------
 *
 * result_identity.c
 *	  The identities of rows that some changes take back.
 *
 * An identity is netted by the engine within a step, so it can occur more than
 * once in a batch only when it is also taken back there.  These are numbered
 * here, in the order in which they are first taken back; all others are
 * insertions that need no looking up.
 *
 * IDENTIFICATION
 *	  src/emit/result_identity.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "emit/result_run.h"
#include "port/pg_bswap.h"

typedef struct IdentityKey
{
	int64		left;			/* sequence numbers; 0: none */
	int64		right;
} IdentityKey;

typedef struct Identity
{
	IdentityKey key;
	int			number;
	char		status;
} Identity;

#define SH_PREFIX		identity
#define SH_ELEMENT_TYPE Identity
#define SH_KEY_TYPE		IdentityKey
#define SH_KEY			key
#define SH_HASH_KEY(tb, key) \
	hash_combine64(mix64(key.left), mix64(key.right))
#define SH_EQUAL(tb, a, b) ((a).left == (b).left && (a).right == (b).right)
#define SH_SCOPE		static inline
#define SH_DEFINE
#define SH_DECLARE
static inline uint64
mix64(uint64 x)
{
	x ^= x >> 33;
	x *= UINT64CONST(0xff51afd7ed558ccd);
	x ^= x >> 33;
	x *= UINT64CONST(0xc4ceb9fe1a85ec53);
	return x ^ (x >> 33);
}
#include "lib/simplehash.h"

struct SjIdentities
{
	identity_hash *hash;
	int			n;
};

static IdentityKey
key_of(const SjChange *change)
{
	IdentityKey key = {change->left ? change->left->seq : 0,
	change->right ? change->right->seq : 0};

	return key;
}

SjIdentities *
sj_identities_of(const SjChange *changes, int64 n)
{
	SjIdentities *identities = palloc(sizeof(SjIdentities));

	identities->hash = identity_create(CurrentMemoryContext, 64, NULL);
	identities->n = 0;
	for (int64 i = 0; i < n; i++)
	{
		Identity   *identity;
		bool		found;

		if (changes[i].sign > 0)
			continue;
		identity = identity_insert(identities->hash, key_of(&changes[i]),
								   &found);
		if (!found)
			identity->number = identities->n++;
	}
	return identities;
}

int
sj_identities_count(const SjIdentities *identities)
{
	return identities->n;
}

static int
number_of(const SjIdentities *identities, IdentityKey key)
{
	Identity   *identity = identity_lookup(identities->hash, key);

	return identity == NULL ? -1 : identity->number;
}

int
sj_identity_number(const SjIdentities *identities, const SjChange *change)
{
	return number_of(identities, key_of(change));
}

int
sj_identity_number_of_id(const SjIdentities *identities, const pg_uuid_t *id)
{
	uint64		half[2];
	IdentityKey key;

	memcpy(half, id->data, UUID_LEN);
	key.left = (int64) pg_ntoh64(half[0]);
	key.right = (int64) pg_ntoh64(half[1]);
	return number_of(identities, key);
}
