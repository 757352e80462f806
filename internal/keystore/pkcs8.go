package keystore

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/des"
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

// Encrypted keys, RFC 5958 section 3, by RFC 8018 (PBES2 with PBKDF2) or RFC 7292 (the
// ciphers of old PKCS #12 files), as openssl and Java write them. The standard library can't
// read them.

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

func errIterations(n int) error {
	return fmt.Errorf("%d iterations to check the password are too many", n)
}

// decryptPKCS8 returns the key in an EncryptedPrivateKeyInfo.
func decryptPKCS8(der []byte, password string) ([]byte, error) {
	var outer encryptedKey
	if _, err := asn1.Unmarshal(der, &outer); err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	return decrypt(outer.Algorithm, outer.Data, password)
}

// decrypt returns the DER value that was encrypted with a password.
func decrypt(alg pkix.AlgorithmIdentifier, data []byte, password string) (plain []byte, err error) {
	if alg.Algorithm.Equal(oidPBES2) {
		plain, err = decryptPBES2(alg, data, password)
	} else {
		plain, err = decryptPKCS12(alg, data, password)
	}
	if errors.Is(err, errWrongPassword) && password == "" {
		err = ErrNoPassword
	}
	return plain, err
}

func decryptPBES2(alg pkix.AlgorithmIdentifier, data []byte, password string) ([]byte, error) {
	var (
		scheme pbes2Params
		kdf    pbkdf2Params
		iv     []byte
	)
	if _, err := asn1.Unmarshal(alg.Parameters.FullBytes, &scheme); err != nil {
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
	if prf == nil || kdf.Iterations < 1 || len(iv) != aes.BlockSize {
		return nil, errKeyCipher
	}
	if kdf.Iterations > mostIterations {
		return nil, errIterations(kdf.Iterations)
	}
	key, err := pbkdf2.Key(prf, password, kdf.Salt, kdf.Iterations, size)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return decryptCBC(block, iv, data)
}

// decryptPKCS12 decrypts with the ciphers of RFC 7292, appendix C, that old tools use.
func decryptPKCS12(alg pkix.AlgorithmIdentifier, data []byte, password string) (plain []byte, err error) {
	var p struct {
		Salt       []byte
		Iterations int
	}
	size := map[string]int{"1.2.840.113549.1.12.1.3": 24, "1.2.840.113549.1.12.1.4": 16, "1.2.840.113549.1.12.1.5": 16, "1.2.840.113549.1.12.1.6": 5}[alg.Algorithm.String()]
	if size == 0 {
		return nil, errKeyCipher
	}
	if _, err := asn1.Unmarshal(alg.Parameters.FullBytes, &p); err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	if p.Iterations < 1 || p.Iterations > mostIterations {
		return nil, errIterations(p.Iterations)
	}
	for _, pw := range bmpPasswords(password) {
		key := pkcs12Key(sha1.New, cipherKey, pw, p.Salt, p.Iterations, size)
		var block cipher.Block
		switch id := alg.Algorithm[len(alg.Algorithm)-1]; id {
		case 3:
			block, err = des.NewTripleDESCipher(key)
		case 4: // of two keys
			block, err = des.NewTripleDESCipher(append(key, key[:des.BlockSize]...))
		default:
			block = newRC2(key)
		}
		if err != nil {
			return nil, err
		}
		if plain, err = decryptCBC(block, pkcs12Key(sha1.New, cipherIV, pw, p.Salt, p.Iterations, block.BlockSize()), data); err == nil {
			return plain, nil
		}
	}
	return nil, err
}

// decryptCBC decrypts a DER value and removes the padding.
func decryptCBC(block cipher.Block, iv, data []byte) ([]byte, error) {
	size := block.BlockSize()
	if len(data) == 0 || len(data)%size != 0 {
		return nil, errors.New("its encrypted part is cut short")
	}
	plain := make([]byte, len(data))
	cipher.NewCBCDecrypter(block, iv).CryptBlocks(plain, data)
	pad := int(plain[len(plain)-1])
	if pad == 0 || pad > size {
		return nil, errWrongPassword
	}
	plain = plain[:len(plain)-pad]
	var value asn1.RawValue
	if rest, err := asn1.Unmarshal(plain, &value); err != nil || len(rest) > 0 {
		return nil, errWrongPassword
	}
	return plain, nil
}
