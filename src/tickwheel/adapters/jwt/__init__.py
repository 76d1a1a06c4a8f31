"""JSON Web Tokens of an issuer: `verifier.JwtVerifier` judges them, `key_sets` has the issuer's keys."""
