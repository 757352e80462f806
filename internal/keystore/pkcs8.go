package keystore

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/pbkdf2"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"hash"
)

// Encrypted keys, RFC 5958 section 3 and RFC 8018 (PBES2 with PBKDF2), as openssl and Java
// write them. The standard library can't read them.

type encryptedKey struct {
	Algorithm pkix.AlgorithmIdentifier
	Data      []byte
}

type pbes2Params struct {
	KDF, Cipher pkix.AlgorithmIdentifier
}

type pbkdf2Params struct {
	Salt       []byte
	Iterations int
	KeyLength  int                      `asn1:"optional"`
	PRF        pkix.AlgorithmIdentifier `asn1:"optional"`
}

const mostIterations = 10_000_000

var (
	oidPBES2  = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 13}
	oidPBKDF2 = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 12}
)

// hashOf returns the hash of the HMAC that derives the key.
func hashOf(prf asn1.ObjectIdentifier) func() hash.Hash {
	switch prf.String() {
	case "", "1.2.840.113549.2.7":
		return sha1.New
	case "1.2.840.113549.2.9":
		return sha256.New
	case "1.2.840.113549.2.10":
		return sha512.New384
	case "1.2.840.113549.2.11":
		return sha512.New
	}
	return nil
}

// keyBytes returns the size of the key of AES in CBC mode, or 0.
func keyBytes(alg asn1.ObjectIdentifier) int {
	switch alg.String() {
	case "2.16.840.1.101.3.4.1.2":
		return 16
	case "2.16.840.1.101.3.4.1.22":
		return 24
	case "2.16.840.1.101.3.4.1.42":
		return 32
	}
	return 0
}

var errKeyCipher = errors.New("it is encrypted in a way that is not supported; convert it with: openssl pkcs8 -topk8 -v2 aes256 -in old -out new")

// decryptPKCS8 returns the key in an EncryptedPrivateKeyInfo.
func decryptPKCS8(der []byte, password string) ([]byte, error) {
	var (
		outer  encryptedKey
		scheme pbes2Params
		kdf    pbkdf2Params
		iv     []byte
	)
	if _, err := asn1.Unmarshal(der, &outer); err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	if !outer.Algorithm.Algorithm.Equal(oidPBES2) {
		return nil, errKeyCipher
	}
	if _, err := asn1.Unmarshal(outer.Algorithm.Parameters.FullBytes, &scheme); err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	size := keyBytes(scheme.Cipher.Algorithm)
	if size == 0 || !scheme.KDF.Algorithm.Equal(oidPBKDF2) {
		return nil, errKeyCipher
	}
	if _, err := asn1.Unmarshal(scheme.KDF.Parameters.FullBytes, &kdf); err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	if _, err := asn1.Unmarshal(scheme.Cipher.Parameters.FullBytes, &iv); err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	prf := hashOf(kdf.PRF.Algorithm)
	if prf == nil || kdf.Iterations < 1 || kdf.Iterations > mostIterations || len(iv) != aes.BlockSize {
		return nil, errKeyCipher
	}
	key, err := pbkdf2.Key(prf, password, kdf.Salt, kdf.Iterations, size)
	if err != nil {
		return nil, err
	}
	return decryptCBC(key, iv, outer.Data)
}

// decryptCBC decrypts and removes the padding.
func decryptCBC(key, iv, data []byte) ([]byte, error) {
	errWrong := errWrongPassword
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	if len(data) == 0 || len(data)%aes.BlockSize != 0 {
		return nil, errors.New("its encrypted part is cut short")
	}
	plain := make([]byte, len(data))
	cipher.NewCBCDecrypter(block, iv).CryptBlocks(plain, data)
	pad := int(plain[len(plain)-1])
	if pad == 0 || pad > aes.BlockSize {
		return nil, errWrong
	}
	plain = plain[:len(plain)-pad]
	var any asn1.RawValue
	if rest, err := asn1.Unmarshal(plain, &any); err != nil || len(rest) > 0 {
		return nil, errWrong
	}
	return plain, nil
}
