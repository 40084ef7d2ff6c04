//! The consistent-hash ring: from members to placement.
