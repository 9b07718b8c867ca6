package result

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"math/big"
	"os"
)

//go:embed prices/us-east-1.json
var defaultPrices []byte

// Prices holds the prices of machines and traffic, in millionths of the currency.
type Prices struct {
	// Source and Date document where and when the prices were published.
	Source   string `json:"source"`
	Date     string `json:"date"`
	Currency string `json:"currency"`
	// Instance is the instance type of every node, a key of InstanceMicrosPerHour.
	Instance              string           `json:"instance"`
	InstanceMicrosPerHour map[string]int64 `json:"instanceMicrosPerHour"`
	// TransferMicrosPerGB lists the prices of 10^9 bytes between regions; the first matching entry applies.
	TransferMicrosPerGB []TransferPrice `json:"transferMicrosPerGB"`
}

// TransferPrice is the price of traffic; an empty From or To matches every region.
type TransferPrice struct {
	From  string `json:"from,omitempty"`
	To    string `json:"to,omitempty"`
	Price int64  `json:"price"`
}

// DefaultPrices returns the prices of AWS in us-east-1, for c5d.4xlarge.
func DefaultPrices() *Prices {
	p, err := ParsePrices(defaultPrices)
	if err != nil {
		panic("result: the embedded price table: " + err.Error())
	}
	return p
}

// ReadPrices reads a user's price table from a JSON file.
func ReadPrices(path string) (*Prices, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	p, err := ParsePrices(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return p, nil
}

// ParsePrices decodes and validates a price table.
func ParsePrices(b []byte) (*Prices, error) {
	p := &Prices{}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(p); err != nil {
		return nil, err
	}
	if p.Source == "" || p.Date == "" || p.Currency == "" {
		return nil, fmt.Errorf("source, date and currency: all three are needed, got %q, %q and %q", p.Source, p.Date, p.Currency)
	}
	if _, ok := p.InstanceMicrosPerHour[p.Instance]; !ok {
		return nil, fmt.Errorf("instance: %q has no price in instanceMicrosPerHour", p.Instance)
	}
	for name, price := range p.InstanceMicrosPerHour {
		if price < 0 {
			return nil, fmt.Errorf("instanceMicrosPerHour.%s: %d is negative", name, price)
		}
	}
	for i, t := range p.TransferMicrosPerGB {
		if t.Price < 0 {
			return nil, fmt.Errorf("transferMicrosPerGB[%d].price: %d is negative", i, t.Price)
		}
	}
	return p, nil
}

// Transfer returns the price of 10^9 bytes from one region to another, in millionths; 0 inside a region.
func (p *Prices) Transfer(from, to string) int64 {
	if from == to {
		return 0
	}
	for _, t := range p.TransferMicrosPerGB {
		if (t.From == "" || t.From == from) && (t.To == "" || t.To == to) {
			return t.Price
		}
	}
	return 0
}

// Traffic is the number of bytes sent from one region to another.
type Traffic struct {
	From  string `json:"from"`
	To    string `json:"to"`
	Bytes int64  `json:"bytes"`
}

// PerMillion returns the two parts of the cost of a million transactions, as in the study of SmallBank on Detock
// (section 4.3). machines is the cost of the nodes for the time that a million transactions take at the measured rate.
// transfer is the cost of the traffic between regions.
//
//	nodes x price per hour / 3600 x measured seconds x 10^6 / committed
//	+ sum over links of bytes / transferred x 10^6 x price per GB / 10^9
//
// measuredMicroseconds is the time in which the committed transactions were measured; transferred is the number of
// transactions that caused the traffic. machines is 0 if committed is 0, and transfer is 0 if transferred is 0.
func (p *Prices) PerMillion(nodes int, measuredMicroseconds, committed int64, traffic []Traffic, transferred int64) (machines, transfer Micros) {
	if committed > 0 {
		// nodes x price / 3600e6 us x measured us x 1e6 / committed
		machines = Micros(ratio(committed, 3600, int64(nodes), p.InstanceMicrosPerHour[p.Instance], measuredMicroseconds))
	}
	if transferred > 0 {
		sum := new(big.Int)
		for _, t := range traffic {
			sum.Add(sum, new(big.Int).Mul(big.NewInt(t.Bytes), big.NewInt(p.Transfer(t.From, t.To))))
		}
		d := new(big.Int).Mul(big.NewInt(transferred), big.NewInt(1000)) // 10^9 / 10^6
		// Half of the divisor is added so that the integer division rounds to the nearest millionth.
		transfer = Micros(sum.Quo(sum.Add(sum, new(big.Int).Quo(d, big.NewInt(2))), d).Int64())
	}
	return machines, transfer
}

// ratio returns the product of factors divided by a * b, rounded half up. a * b must not be 0.
func ratio(a, b int64, factors ...int64) int64 {
	// The products can overflow 64 bits, for example bytes times prices.
	n := big.NewInt(1)
	for _, f := range factors {
		n.Mul(n, big.NewInt(f))
	}
	d := new(big.Int).Mul(big.NewInt(a), big.NewInt(b))
	n.Add(n, new(big.Int).Quo(d, big.NewInt(2)))
	return n.Quo(n, d).Int64()
}

// Micros is an amount in millionths of a currency unit. In JSON it is a decimal number of units.
type Micros int64

// String formats the amount with six decimals.
func (m Micros) String() string {
	sign := ""
	if m < 0 {
		sign, m = "-", -m
	}
	return fmt.Sprintf("%s%d.%06d", sign, m/1e6, m%1e6)
}

// MarshalJSON writes the amount as a decimal number.
func (m Micros) MarshalJSON() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalJSON reads a decimal number and truncates it to millionths.
func (m *Micros) UnmarshalJSON(b []byte) error {
	// Exponents are refused: 1e999999999 is valid JSON, but expanding it would exhaust the memory.
	r := new(big.Rat)
	ok := len(b) <= 40 && !bytes.ContainsAny(b, "eE")
	if ok {
		_, ok = r.SetString(string(b))
	}
	if !ok {
		return fmt.Errorf("%s is not an amount", b)
	}
	r.Mul(r, big.NewRat(1e6, 1))
	q := new(big.Int).Quo(r.Num(), r.Denom())
	if !q.IsInt64() {
		return fmt.Errorf("%s is not an amount", b)
	}
	*m = Micros(q.Int64())
	return nil
}
